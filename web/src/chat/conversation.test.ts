import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Approval, ApprovalState } from "../api/types";
import { Conversation } from "./conversation";
import { readDraft } from "./drafts";
import { isToolPart } from "./seed";

vi.mock("../auth/session", () => ({
  accessToken: () => Promise.resolve("a-token"),
  refresh: () => Promise.resolve(false),
  endSession: () => undefined,
}));

interface Seen {
  method: string;
  path: string;
  body: unknown;
}

const ID = "conversation-1";
let seen: Seen[];
let answer: (request: Seen) => Response;
let stored: Map<string, string>;

const json = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
const sse = (...chunks: unknown[]) =>
  new Response([...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"].join(""), {
    headers: { "content-type": "text/event-stream" },
  });
const none = () => new Response(null, { status: 204 });
const row = (state: ApprovalState) => ({ approval_id: "ap1", state }) as Approval;

const call = { toolCallId: "k1", toolName: "demo__post_message", dynamic: true, input: { channel: "#general", text: "Hi" } };
const asking = [
  { type: "start", messageId: "m1" },
  { type: "start-step" },
  { type: "tool-input-available", ...call, title: "Post a message · Demo workspace" },
  { type: "tool-approval-request", approvalId: "ap1", toolCallId: "k1", reason: "Tell everyone" },
  { type: "finish-step" },
];
const goingOn = [
  ...asking.slice(0, 4),
  { type: "tool-output-available", toolCallId: "k1", output: { text: "Posted" }, dynamic: true },
  { type: "finish-step" },
  { type: "start-step" },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Done." },
  { type: "text-end", id: "t" },
  { type: "finish-step" },
  { type: "finish", finishReason: "stop" },
];
const user = { id: "u1", role: "user", parts: [{ type: "text", text: "post it" }] };
const asked = {
  id: "m1",
  role: "assistant",
  parts: [
    { type: "step-start" },
    { type: "dynamic-tool", toolName: call.toolName, toolCallId: "k1", state: "approval-requested", input: call.input, approval: { id: "ap1" } },
  ],
};
const done = {
  id: "m1",
  role: "assistant",
  parts: [
    { type: "step-start" },
    { ...asked.parts[1], state: "output-available", output: { text: "Posted" }, approval: { id: "ap1", approved: true } },
    { type: "step-start" },
    { type: "text", text: "Done.", state: "done" },
  ],
};

beforeEach(() => {
  seen = [];
  stored = new Map();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => stored.set(key, value),
    removeItem: (key: string) => stored.delete(key),
  });
  vi.stubGlobal("fetch", (input: string, init: RequestInit = {}) => {
    const request = {
      method: init.method ?? "GET",
      path: input.replace(/\?.*$/, ""),
      body: init.body ? JSON.parse(String(init.body)) : null,
    };
    seen.push(request);
    return Promise.resolve(answer(request));
  });
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function open(isNew: boolean): Conversation {
  return new Conversation(ID, isNew, new QueryClient({ defaultOptions: { queries: { retry: false } } }));
}

async function settle(work: Promise<void>): Promise<void> {
  let over = false;
  void work.then(() => {
    over = true;
  });
  for (let round = 0; round < 400 && !over; round++) await vi.advanceTimersByTimeAsync(500);
  expect(over).toBe(true);
}

it("a message is posted alone, and its answer and request are shown as they stream", async () => {
  answer = ({ method, path }) => {
    if (method === "POST" && path === "/v1/chat") return sse(...asking, { type: "finish", finishReason: "tool-calls" });
    return json({ items: [{ ...user, id: postedId() }, asked], next: null, running: false });
  };
  const postedId = () => (seen.find((request) => request.method === "POST")?.body as { messages: { id: string }[] }).messages[0]?.id;
  const conversation = open(true);
  await settle(conversation.send("post it"));

  const posts = seen.filter((request) => request.method === "POST");
  expect(posts).toHaveLength(1);
  expect(posts[0]?.body).toEqual({
    id: ID,
    messages: [{ id: postedId(), role: "user", parts: [{ type: "text", text: "post it" }] }],
    trigger: "submit-message",
  });
  const part = conversation.chat.lastMessage?.parts.find(isToolPart);
  expect(part).toMatchObject({ state: "approval-requested", approval: { id: "ap1" } });
});

it("after a decision the page follows until Toshi has gone on, and posts nothing", async () => {
  let state: ApprovalState = "pending";
  let streams = 0;
  answer = ({ path }) => {
    if (path.endsWith("/stream")) {
      streams++;
      // The worker has not started when the page first asks.
      if (streams < 3) return none();
      state = "succeeded";
      return sse(...goingOn);
    }
    if (path === "/v1/approvals/ap1") return json(row(state));
    return json({ items: [user, streams < 3 ? asked : done], next: null, running: false });
  };
  const conversation = open(false);
  await settle(conversation.load());
  state = "approved";
  conversation.expectContinuation();
  expect(conversation.snapshot().following).toBe(true);
  await vi.advanceTimersByTimeAsync(15_000);

  expect(streams).toBeGreaterThanOrEqual(3);
  expect(seen.filter((request) => request.method !== "GET")).toEqual([]);
  expect(conversation.chat.messages.map((message) => message.id)).toEqual(["u1", "m1"]);
  expect(conversation.chat.lastMessage?.parts).toEqual(done.parts);
  expect(conversation.snapshot().following).toBe(false);
});

it("saying what became of an unknown outcome is not followed, since it wakes nothing", async () => {
  answer = ({ path }) =>
    path === "/v1/approvals/ap1" ? json(row("unknown")) : json({ items: [user, asked], next: null, running: false });
  const conversation = open(false);
  await settle(conversation.load());
  for (const state of ["resolved_done", "resolved_not_done"] as const) {
    for (const why of ["decided", "changed"] as const) conversation.cardChanged(state, why);
  }
  expect(conversation.snapshot().following).toBe(false);
  expect(seen.some((request) => request.path.endsWith("/stream"))).toBe(false);
  conversation.cardChanged("approved", "decided");
  expect(conversation.snapshot().following).toBe(true);
  conversation.close();
});

it("a conversation that the server works on is followed when it is opened", async () => {
  let streamed = false;
  answer = ({ path }) => {
    if (path.endsWith("/stream")) {
      streamed = true;
      return sse(...goingOn);
    }
    if (path === "/v1/approvals/ap1") return json(row("succeeded"));
    return json({ items: streamed ? [user, done] : [user], next: null, running: !streamed });
  };
  const conversation = open(false);
  await settle(conversation.load());
  await vi.advanceTimersByTimeAsync(5000);
  expect(streamed).toBe(true);
  expect(conversation.chat.lastMessage?.parts).toEqual(done.parts);
});

it("a request that only waits for a person is not followed", async () => {
  answer = ({ path }) =>
    path === "/v1/approvals/ap1" ? json(row("pending")) : json({ items: [user, asked], next: null, running: false });
  const conversation = open(false);
  await settle(conversation.load());
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen.some((request) => request.path.endsWith("/stream"))).toBe(false);
});

it("a message that did not arrive goes back into the input and is sent again under the same id", async () => {
  let broken = true;
  answer = ({ method, path }) => {
    if (method === "POST" && broken) return json({ code: "rate_limited", detail: "Too many messages." }, 429);
    if (method === "POST") return sse({ type: "start", messageId: "m9" }, { type: "finish", finishReason: "stop" });
    if (path.endsWith("/messages")) return json({ code: "not_found" }, 404);
    return none();
  };
  const conversation = open(true);
  await settle(conversation.send("hello"));
  expect(conversation.chat.messages).toEqual([]);
  expect(conversation.snapshot().problem).toContain("too much at once");
  expect(readDraft(ID).text).toBe("hello");

  broken = false;
  await settle(conversation.send("hello"));
  const ids = seen
    .filter((request) => request.method === "POST")
    .map((request) => (request.body as { messages: { id: string }[] }).messages[0]?.id);
  expect(ids).toHaveLength(2);
  expect(ids[0]).toBe(ids[1]);
  expect(readDraft(ID).text).toBe("");
});

it("a message that arrived although the line broke is not offered again", async () => {
  answer = ({ method, path }) => {
    if (method === "POST") throw new TypeError("Failed to fetch");
    if (path.endsWith("/stream")) return none();
    const posted = (seen.find((request) => request.method === "POST")?.body as { messages: unknown[] } | undefined)?.messages ?? [];
    return json({ items: posted, next: null, running: false });
  };
  const conversation = open(true);
  await settle(conversation.send("hello"));
  expect(conversation.chat.messages).toHaveLength(1);
  expect(readDraft(ID).text).toBe("");
  expect(conversation.snapshot().problem).toContain("can't be reached");
});
