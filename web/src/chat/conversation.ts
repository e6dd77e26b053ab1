import { Chat } from "@ai-sdk/react";
import type { QueryClient } from "@tanstack/react-query";
import { DefaultChatTransport } from "ai";
import { api, chatFetch, isProblem } from "../api/client";
import { explain } from "../api/problem";
import type { Approval, ApprovalState } from "../api/types";
import { isResolved, isSettled, isUnderway } from "../approvals/states";
import { announce } from "../ui/announce";
import { readDraft, writeDraft } from "./drafts";
import { approvalIds, openStep, reconcile, requestBody, seed, type ToshiMessage } from "./seed";

/** A lost hint costs the server at most 70 seconds; the page follows somewhat longer. */
const FOLLOW_MS = 120_000;
/** How long after the last settled call the page waits for the words that follow it. */
const CONTINUATION_MS = 20_000;

export type Loading = "new" | "loading" | "ready" | "missing" | "failed";

export interface ConversationState {
  loading: Loading;
  /** A message is being sent and answered. */
  posting: boolean;
  /** Something is going on that was not started by the message being sent. */
  following: boolean;
  /** A sentence about what went wrong with the last message. */
  problem: string | null;
  /** Grows when text was put back into the input. */
  restored: number;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** One conversation on this page: sends, follows and re-reads. It never decides. */
export class Conversation {
  readonly id: string;
  readonly chat: Chat<ToshiMessage>;
  #state: ConversationState;
  #listeners = new Set<() => void>();
  #queries: QueryClient;
  #generation = 0;
  #expectUntil = 0;

  constructor(id: string, isNew: boolean, queries: QueryClient) {
    this.id = id;
    this.#queries = queries;
    this.#state = { loading: isNew ? "new" : "loading", posting: false, following: false, problem: null, restored: 0 };
    this.chat = new Chat<ToshiMessage>({
      id,
      transport: new DefaultChatTransport<ToshiMessage>({
        api: "/v1/chat",
        fetch: chatFetch,
        prepareSendMessagesRequest: ({ id: chatId, messages, trigger, messageId }) => ({
          body: requestBody({ id: chatId, messages, trigger, messageId }),
        }),
      }),
    });
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  snapshot = (): ConversationState => this.#state;

  #set(change: Partial<ConversationState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }

  /** Before the first message there is no conversation yet: what is typed belongs to the next new one. */
  get draftKey(): string {
    return this.#state.loading === "new" ? "new" : this.id;
  }

  get #busy(): boolean {
    return this.chat.status === "submitted" || this.chat.status === "streaming";
  }

  /** Reads the stored messages, and follows when the server is at work on them. */
  async load(): Promise<void> {
    if (this.#state.loading === "new") return;
    try {
      const running = await this.#reload();
      this.#set({ loading: "ready" });
      const rows = await this.#rows();
      if (running || rows.some((row) => isUnderway(row.state))) void this.follow();
    } catch (error) {
      if (this.#state.loading === "ready") return;
      const missing = isProblem(error, 404);
      // The first message did not arrive, and what was typed is still here to be sent.
      if (missing && readDraft(this.id).text) this.#set({ loading: "ready" });
      else this.#set({ loading: missing ? "missing" : "failed", problem: explain(error) });
    }
  }

  async #reload(): Promise<boolean> {
    const page = await api.messages(this.id);
    if (!this.#busy) this.chat.messages = reconcile(this.chat.messages, seed(page.items));
    return page.running;
  }

  #rows(): Promise<Approval[]> {
    const open = approvalIds(this.chat.messages).filter((id) => {
      const known = this.#queries.getQueryData<Approval>(["approval", id]);
      return !known || !isSettled(known.state);
    });
    return Promise.all(
      open.map((id) =>
        this.#queries.fetchQuery({ queryKey: ["approval", id], queryFn: () => api.approval(id), staleTime: 0 }),
      ),
    );
  }

  /** Sends one message. Text that did not arrive goes back into the input, under the same id. */
  async send(text: string): Promise<void> {
    if (this.#state.posting) return;
    this.#generation++;
    this.#set({ posting: true, following: false });
    await this.chat.stop();
    const draft = readDraft(this.draftKey);
    const id = draft.text.trim() === text && draft.messageId ? draft.messageId : this.chat.generateId();
    writeDraft(this.draftKey, { text: "" });
    this.#set({ problem: null, loading: "ready" });
    announce("Sent. Toshi is answering.");
    const known = new Set(this.chat.messages.map((message) => message.id));
    const sending = this.chat.sendMessage({ id, role: "user", parts: [{ type: "text", text }] });
    void pause(1500).then(() => this.#queries.invalidateQueries({ queryKey: ["conversations"] }));
    await sending;
    this.#set({ posting: false });
    void this.#queries.invalidateQueries({ queryKey: ["conversations"] });
    void this.#queries.invalidateQueries({ queryKey: ["approvals"] });
    if (this.chat.status === "error") {
      if (!(await this.#recover(id, text, this.chat.error, known))) return;
    } else announce(this.#asksSomething(known) ? "Toshi asks for your approval." : "Toshi has answered.");
    await this.#reload().then(
      (running) => (running ? void this.follow() : undefined),
      () => undefined,
    );
  }

  #asksSomething(known: Set<string>): boolean {
    const last = this.chat.lastMessage;
    return last !== undefined && !known.has(last.id) && openStep(last).length > 0;
  }

  /** True when the message arrived in spite of the failure. */
  async #recover(id: string, text: string, error: unknown, known: Set<string>): Promise<boolean> {
    const sentence = explain(error);
    this.chat.clearError();
    const stored = await api.messages(this.id).then(
      (page) => seed(page.items).some((message) => message.id === id),
      () => false,
    );
    const answered = this.chat.messages.some((message) => message.role === "assistant" && !known.has(message.id));
    if (!stored && !answered) {
      this.chat.messages = this.chat.messages.filter((message) => message.id !== id);
      writeDraft(this.id, { text, messageId: id });
      this.#set({ restored: this.#state.restored + 1 });
    }
    this.#set({ problem: sentence });
    announce(sentence);
    return stored || answered;
  }

  dismissProblem(): void {
    this.#set({ problem: null });
  }

  /** A card has a new state. Saying what became of an unknown outcome wakes nothing, so nothing follows it. */
  cardChanged(state: ApprovalState, why: "decided" | "changed"): void {
    if (isResolved(state)) return;
    if (why === "decided" || !this.#state.following) this.expectContinuation();
  }

  /** After a decision: the server will act and say something. */
  expectContinuation(): void {
    this.#expectUntil = Date.now() + FOLLOW_MS;
    void this.follow();
  }

  /** Follows the stream and re-reads until the server is quiet. */
  async follow(): Promise<void> {
    const generation = ++this.#generation;
    const started = Date.now();
    const seen = this.#fingerprint();
    let settledAt: number | null = null;
    let wait = 500;
    this.#set({ following: true });
    try {
      while (generation === this.#generation && Date.now() - started < FOLLOW_MS) {
        if (!this.#busy) {
          await this.chat.resumeStream();
          if (this.chat.status === "error") this.chat.clearError();
        }
        if (generation !== this.#generation) break;
        const quiet = await this.#isQuiet(seen, settledAt).catch(() => null);
        if (quiet === "quiet") break;
        if (quiet === "settled") settledAt ??= Date.now();
        await pause(wait);
        wait = Math.min(wait * 1.3, 2500);
      }
    } finally {
      if (generation === this.#generation) {
        this.#expectUntil = 0;
        this.#set({ following: false });
        void this.#queries.invalidateQueries({ queryKey: ["approvals"] });
        void this.#queries.invalidateQueries({ queryKey: ["conversations"] });
      }
    }
  }

  async #isQuiet(seen: string, settledAt: number | null): Promise<"quiet" | "settled" | "busy"> {
    const rows = await this.#rows();
    const running = await this.#reload();
    if (running || this.#busy || rows.some((row) => isUnderway(row.state))) return "busy";
    const continued = this.#fingerprint() !== seen;
    const expecting = Date.now() < this.#expectUntil;
    if (!expecting || continued) return "quiet";
    const waitsForPerson = rows.some((row) => row.state === "pending");
    if (waitsForPerson && rows.length > 0 && settledAt !== null) return "quiet";
    return settledAt !== null && Date.now() - settledAt > CONTINUATION_MS ? "quiet" : "settled";
  }

  /** Changes when Toshi has said something new, not when a card changed. */
  #fingerprint(): string {
    return this.chat.messages
      .filter((message) => message.role === "assistant")
      .map((message) => `${message.id}:${message.parts.filter((part) => part.type === "text").length}`)
      .join(" ");
  }

  close(): void {
    this.#generation++;
    void this.chat.stop();
  }
}

const open = new Map<string, Conversation>();

export function conversationFor(id: string, isNew: boolean, queries: QueryClient): Conversation {
  let found = open.get(id);
  if (!found) {
    found = new Conversation(id, isNew, queries);
    open.set(id, found);
  }
  return found;
}

export function forgetConversation(id: string): void {
  open.get(id)?.close();
  open.delete(id);
}

export function forgetAllConversations(): void {
  for (const id of [...open.keys()]) forgetConversation(id);
}
