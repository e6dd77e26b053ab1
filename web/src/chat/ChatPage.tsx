import { useChat } from "@ai-sdk/react";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { generateId } from "ai";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { config } from "../config";
import { can, useMe } from "../api/queries";
import { useMedia, useTitle } from "../ui/hooks";
import { Modal } from "../ui/Modal";
import { Failed, Loading, Notice } from "../ui/parts";
import { Composer } from "./Composer";
import { conversationFor, forgetConversation } from "./conversation";
import { ConversationList } from "./ConversationList";
import { type CardChange, Writing } from "./Message";
import { Thread } from "./Thread";

const newId = () => `web-${generateId()}`;

export function ChatPage() {
  const { id } = useParams({ from: "/chat/{-$id}" });
  const [fresh, setFresh] = useState(newId);
  const [listOpen, setListOpen] = useState(false);
  const navigate = useNavigate();
  const wide = useMedia("(min-width: 900px)");
  const current = id ?? fresh;
  useTitle("Chat");

  const me = useMe().data;
  if (!can(me, "chat")) {
    return (
      <div className="page">
        <h1>Chat</h1>
        <p className="page-lead">Your role does not include the chat. Your school's administrator can tell you more.</p>
      </div>
    );
  }

  const startNew = () => {
    setFresh(newId());
    setListOpen(false);
    void navigate({ to: "/chat/{-$id}", params: { id: undefined } });
  };

  const list = <ConversationList currentId={id} onPick={() => setListOpen(false)} onNew={startNew} />;

  return (
    <div className="chat">
      {wide ? (
        <aside className="chat-side">{list}</aside>
      ) : (
        <>
          <div className="chat-bar">
            <button type="button" className="button button-small" onClick={() => setListOpen(true)}>
              Conversations
            </button>
            <button type="button" className="button button-small" onClick={startNew}>
              New
            </button>
          </div>
          <Modal title="Conversations" open={listOpen} onClose={() => setListOpen(false)} className="drawer">
            {list}
            <button type="button" className="button button-wide" onClick={() => setListOpen(false)}>
              Close
            </button>
          </Modal>
        </>
      )}
      <section className="chat-main" aria-labelledby="chat-heading">
        <h1 id="chat-heading" className="visually-hidden">
          Conversation with Toshi
        </h1>
        <ConversationView
          key={current}
          id={current}
          isNew={current === fresh}
          onFirst={() => void navigate({ to: "/chat/{-$id}", params: { id: current }, replace: true })}
        />
      </section>
    </div>
  );
}

function ConversationView({ id, isNew, onFirst }: { id: string; isNew: boolean; onFirst: () => void }) {
  const queries = useQueryClient();
  const [round, setRound] = useState(0);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- whether it is new is settled when it is first opened; a round starts over
  const conversation = useMemo(() => conversationFor(id, isNew, queries), [id, queries, round]);
  const state = useSyncExternalStore(conversation.subscribe, conversation.snapshot);
  const chat = useChat({ chat: conversation.chat, throttle: 40 });
  const wide = useMedia("(min-width: 900px)");

  useEffect(() => {
    void conversation.load();
  }, [conversation]);

  const onCardChange = useCallback<CardChange>(
    (state, why) => conversation.cardChanged(state, why),
    [conversation],
  );

  const streaming = chat.status === "submitted" || chat.status === "streaming";
  const empty = chat.messages.length === 0;

  const send = (text: string) => {
    if (empty) onFirst();
    void conversation.send(text);
  };

  if (state.loading === "missing") {
    return (
      <div className="page-note">
        <Notice tone="info">This conversation does not exist any more, or it is not yours.</Notice>
      </div>
    );
  }

  return (
    <>
      <Thread
        chat={chat}
        busy={streaming}
        onCardChange={onCardChange}
        below={state.following && !streaming ? <Writing label="Toshi is working on it…" /> : null}
      >
        {state.loading === "loading" && <Loading what="this conversation" />}
        {state.loading === "failed" && (
          <Failed
            sentence={state.problem ?? "This conversation can't be read."}
            onRetry={() => {
              forgetConversation(id);
              setRound(round + 1);
            }}
          />
        )}
        {empty && (state.loading === "new" || state.loading === "ready") && <Welcome />}
      </Thread>
      <div className="chat-foot">
        {state.problem && state.loading === "ready" && (
          <Notice tone="bad" onDismiss={() => conversation.dismissProblem()}>
            {state.problem}
          </Notice>
        )}
        <Composer
          draftKey={conversation.draftKey}
          restored={state.restored}
          busy={state.posting || state.loading === "loading" || state.loading === "failed"}
          onSend={send}
          focusFirst={wide}
        />
        <ModelNote />
      </div>
    </>
  );
}

function Welcome() {
  const role = useMe().data?.role;
  return (
    <div className="welcome">
      <p className="welcome-title">What can I do for you?</p>
      <p>
        Toshi can look things up and prepare work in the tools that your school has connected. Before anything is changed, it shows
        you exactly what it would do, and waits for your answer.
      </p>
      {role === "admin" ? (
        <p className="welcome-example">
          For example: <q>Post "Sports day moved to Friday" to #general</q>
        </p>
      ) : (
        <p className="welcome-example">Ask me a question.</p>
      )}
      {role !== "admin" && role !== "deputy" && <p>No tool of your school is open to your role yet.</p>}
    </div>
  );
}

function ModelNote() {
  const { sandbox, model } = config();
  const me = useMe().data;
  if (sandbox && model === "scripted") {
    return (
      <p className="model-note">
        Answers come from the sandbox's scripted model. Set <code>TOSHI_LLM_URL</code>, <code>TOSHI_LLM_MODEL</code> and{" "}
        <code>TOSHI_LLM_KEY</code> to use your own.
      </p>
    );
  }
  return <p className="model-note">Answers come from {me?.agent?.model ?? model}. They can be wrong: check what matters.</p>;
}
