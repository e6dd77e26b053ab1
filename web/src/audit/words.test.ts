import { expect, it } from "vitest";
import type { AuditRecord } from "../api/types";
import { how, remark, sentence, toolTitle, verdict } from "./words";

const record = (event: string, detail: AuditRecord["detail"] = {}): AuditRecord => ({
  subject: "s",
  seq: 1,
  event,
  at: "2026-01-05T08:00:00Z",
  conversation_id: null,
  turn_id: null,
  approval_id: "a",
  connection_id: null,
  tool: "post_message",
  actor: { kind: "user", id: "u", name: "Ana" },
  how: "web",
  request_id: null,
  detail,
  arguments_hmac: null,
  prev: null,
  hash: "h",
});

it("every event of the audit has its own sentence", () => {
  const events = [
    "requested",
    "shown",
    "decided",
    "refused",
    "claimed",
    "attempted",
    "late_result",
    "settled",
    "expired",
    "voided",
    "superseded",
    "blocked",
    "resolved",
    "read",
  ];
  const sentences = events.map((event) => sentence(record(event)));
  expect(new Set(sentences).size).toBe(events.length);
});

it("a decision names who and how, and keeps the person's reason", () => {
  const rejected = record("decided", { decision: "reject", reason: "Wrong day" });
  expect(sentence(rejected)).toBe("Ana rejected it.");
  expect(how(rejected)).toBe("in the web console");
  expect(remark(rejected)).toBe("Wrong day");
});

it("a tool is called what the chat calls it, and by its own name when there are no such words", () => {
  const using = (tool: string | null) => toolTitle({ ...record("read"), tool });
  expect(["post_message", "demo__list_messages", "list_channels"].map(using)).toEqual(["Post a message", "Read messages", "List channels"]);
  expect(using("create_task")).toBe("create_task");
  expect(using("constructor")).toBe("constructor");
  expect(using(null)).toBeNull();
  expect(sentence(record("requested"))).toContain("“Post a message”");
});

it("an outcome that is not known is never told as a failure", () => {
  expect(sentence(record("settled", { state: "unknown" }))).toContain("not known");
  expect(sentence(record("settled", { state: "failed" }))).toBe("It did not work.");
});

it("an event from a newer server is still readable", () => {
  expect(sentence(record("grant_used"))).toBe("Grant used.");
});

it("the check names the first bad record, and does not claim a seal that is not there", () => {
  const bad = verdict({ ok: false, sealed_to: null, checked: 3, first_bad: { subject: "a", seq: 2, problem: "altered" }, next: null });
  expect(bad).toMatchObject({ ok: false });
  expect(bad.text).toContain("record 2 of a: altered");
  const unsealed = verdict({ ok: true, sealed_to: null, checked: 3, first_bad: null, next: null }).text;
  expect(unsealed).toContain("Nothing was changed, put in between or cut off.");
  expect(unsealed).toContain("removed as a whole would not be noticed");
  expect(verdict({ ok: true, sealed_to: "Monday", checked: 3, first_bad: null, next: null }).text).not.toContain("would not be noticed");
});
