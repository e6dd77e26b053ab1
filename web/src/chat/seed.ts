import type { DynamicToolUIPart, UIMessage } from "ai";

export interface ToshiMetadata {
  created_at?: string;
}

export interface ApprovalDescriptor {
  title?: string;
  connector?: string;
  workspace?: string;
  account?: string;
  tool?: string;
  risk?: string;
  decide_by?: string;
  intent?: string;
}

export type ToshiData = { "toshi-approval": { state?: string } };
export type ToshiMessage = UIMessage<ToshiMetadata, ToshiData>;
export type ToolPart = DynamicToolUIPart;

/** Keeps what the page can show from the stored messages; a shape it does not know never breaks the page. */
export function seed(items: unknown[]): ToshiMessage[] {
  return items.flatMap((item) => {
    if (typeof item !== "object" || item === null) return [];
    const { id, role, parts, metadata } = item as Record<string, unknown>;
    if (typeof id !== "string" || (role !== "user" && role !== "assistant") || !Array.isArray(parts)) return [];
    const known = parts.filter(
      (part: unknown) => typeof part === "object" && part !== null && typeof (part as { type?: unknown }).type === "string",
    );
    return [
      {
        id,
        role,
        parts: known as ToshiMessage["parts"],
        metadata: (typeof metadata === "object" && metadata !== null ? metadata : {}) as ToshiMetadata,
      },
    ];
  });
}

/**
 * The stored messages win. A message that only this page has stays when it is the newest,
 * since it may not be stored yet.
 */
export function reconcile(local: ToshiMessage[], stored: ToshiMessage[]): ToshiMessage[] {
  const ids = new Set(stored.map((message) => message.id));
  const tail: ToshiMessage[] = [];
  for (let index = local.length - 1; index >= 0; index--) {
    const message = local[index];
    if (!message || ids.has(message.id)) break;
    tail.unshift(message);
  }
  return [...stored, ...tail];
}

export function isToolPart(part: ToshiMessage["parts"][number]): part is ToolPart {
  return part.type === "dynamic-tool";
}

export function approvalIdOf(part: ToolPart): string | null {
  const metadata = part.toolMetadata as { approval_id?: string } | undefined;
  // Where nobody answered, or an approved call is under way, a stored part has no approval.
  return part.approval?.id ?? metadata?.approval_id ?? null;
}

/** Every approval id of a conversation, in order. */
export function approvalIds(messages: ToshiMessage[]): string[] {
  return messages.flatMap((message) =>
    message.parts.flatMap((part) => {
      const id = isToolPart(part) ? approvalIdOf(part) : null;
      return id ? [id] : [];
    }),
  );
}

/** The approvals of the newest step that asked, if nothing has been said in that message since. */
export function openStep(message: ToshiMessage): string[] {
  const ids: string[] = [];
  for (let index = message.parts.length - 1; index >= 0; index--) {
    const part = message.parts[index];
    if (!part || part.type === "step-start") break;
    if (part.type === "text" && part.text.trim() && ids.length === 0) return [];
    const id = isToolPart(part) ? approvalIdOf(part) : null;
    if (id) ids.unshift(id);
  }
  return ids;
}

export function textOf(message: ToshiMessage): string {
  return message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** Only what the server takes from a request: never the history. */
export function requestBody(options: {
  id: string;
  messages: ToshiMessage[];
  trigger: "submit-message" | "regenerate-message";
  messageId: string | undefined;
}) {
  const last = options.messages.findLast((message) => message.role === "user");
  return {
    id: options.id,
    messages: last ? [{ id: last.id, role: last.role, parts: last.parts }] : [],
    trigger: options.trigger,
    ...(options.messageId === undefined ? {} : { messageId: options.messageId }),
  };
}
