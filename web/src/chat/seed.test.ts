import { expect, it } from "vitest";
import { approvalIds, openStep, reconcile, requestBody, seed, type ToshiMessage } from "./seed";

const user = (id: string, text: string): ToshiMessage => ({ id, role: "user", parts: [{ type: "text", text }] });
const card = (approval: string, state = "approval-requested") => ({
  type: "dynamic-tool",
  toolName: "demo__post_message",
  toolCallId: `call-${approval}`,
  state,
  input: { channel: "#general" },
  approval: { id: approval },
});
const assistant = (id: string, ...parts: unknown[]): ToshiMessage => ({
  id,
  role: "assistant",
  parts: [{ type: "step-start" }, ...parts] as ToshiMessage["parts"],
});

it("stored messages keep their parts and lose nothing that the page can show", () => {
  const stored = [user("u1", "hi"), assistant("m1", { type: "text", text: "Hello" }, card("ap1"))];
  expect(seed(stored)).toEqual(stored.map((message) => ({ ...message, metadata: {} })));
});

it("a stored message of an unknown shape is left out and breaks nothing", () => {
  expect(seed([null, 7, {}, { id: "x", role: "tool", parts: [] }, { id: "y", role: "user" }])).toEqual([]);
  expect(seed([{ id: "m", role: "assistant", parts: [null, "x", { type: "text", text: "a" }] }])[0]?.parts).toEqual([
    { type: "text", text: "a" },
  ]);
});

it("the stored messages win, and the newest unstored ones stay", () => {
  const local = [user("u1", "old"), assistant("gone"), user("u2", "new")];
  const stored = [user("u1", "old"), assistant("m1")];
  expect(reconcile(local, stored).map((message) => message.id)).toEqual(["u1", "m1", "gone", "u2"]);
  const later = [...stored, user("u2", "new")];
  expect(reconcile(local, later)).toEqual(later);
});

it("only the last message of the person is posted, never history or answers to approvals", () => {
  const messages = [user("u1", "one"), assistant("m1", card("ap1", "approval-responded")), user("u2", "two")];
  expect(requestBody({ id: "c-12345678", messages, trigger: "submit-message", messageId: undefined })).toEqual({
    id: "c-12345678",
    messages: [{ id: "u2", role: "user", parts: [{ type: "text", text: "two" }] }],
    trigger: "submit-message",
  });
});

it("approvals are found in order across messages", () => {
  expect(approvalIds([assistant("m1", card("a"), card("b")), user("u", "x"), assistant("m2", card("c"))])).toEqual(["a", "b", "c"]);
});

it("a call whose approval a stored part cannot carry is found by its metadata", () => {
  const { approval, ...expired } = { ...card("a", "output-error"), toolMetadata: { approval_id: "a" } };
  expect(approvalIds([assistant("m1", expired, card("b"))])).toEqual([approval.id, "b"]);
});

it("a step is open until something is said after its requests", () => {
  expect(openStep(assistant("m", { type: "text", text: "Please check." }, card("a"), card("b")))).toEqual(["a", "b"]);
  expect(openStep(assistant("m", card("a"), { type: "step-start" }, { type: "text", text: "Done." }))).toEqual([]);
});
