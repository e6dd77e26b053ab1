import { AssistantRuntimeProvider, ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import type { UseChatHelpers } from "@ai-sdk/react";
import { createContext, type ReactNode, useContext, useMemo } from "react";
import { AssistantMessage, type CardChange, UserMessage, Writing } from "./Message";
import type { ToshiMessage } from "./seed";

interface ThreadData {
  byId: Map<string, ToshiMessage>;
  lastId: string | undefined;
  busy: boolean;
  onCardChange: CardChange;
}

const Data = createContext<ThreadData | null>(null);

function useData(): ThreadData {
  const data = useContext(Data);
  if (!data) throw new Error("a message is shown outside a thread");
  return data;
}

function User() {
  const { byId } = useData();
  const message = byId.get(useAuiState((state) => state.message.id));
  return message ? <UserMessage message={message} /> : null;
}

function Assistant() {
  const { byId, busy, lastId, onCardChange } = useData();
  const message = byId.get(useAuiState((state) => state.message.id));
  // The list shows a place for the answer before its first byte is here.
  if (!message) return busy ? <Writing /> : null;
  return <AssistantMessage message={message} writing={busy && message.id === lastId} onCardChange={onCardChange} />;
}

const components = { UserMessage: User, AssistantMessage: Assistant };

/**
 * The list of messages and its scrolling. Parts are drawn from the AI SDK's own messages,
 * since approvals are shown from their rows and not from the runtime's idea of them.
 */
export function Thread(props: {
  chat: UseChatHelpers<ToshiMessage>;
  busy: boolean;
  onCardChange: CardChange;
  children: ReactNode;
  below: ReactNode;
}) {
  const { chat, busy, onCardChange, children, below } = props;
  // A new message never cancels a request that waits for an answer.
  const runtime = useAISDKRuntime(chat, { joinStrategy: "none", cancelPendingToolCallsOnSend: false });
  const { messages } = chat;
  const data = useMemo<ThreadData>(
    () => ({
      byId: new Map(messages.map((message) => [message.id, message])),
      lastId: messages.at(-1)?.id,
      busy,
      onCardChange,
    }),
    [messages, busy, onCardChange],
  );
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Data.Provider value={data}>
        <ThreadPrimitive.Root className="thread">
          <ThreadPrimitive.Viewport className="thread-view" tabIndex={0} role="region" aria-label="Messages">
            <div className="thread-list">
              {children}
              <ThreadPrimitive.Messages components={components} />
              {below}
            </div>
          </ThreadPrimitive.Viewport>
        </ThreadPrimitive.Root>
      </Data.Provider>
    </AssistantRuntimeProvider>
  );
}
