import { describe as group, expect, it } from "vitest";
import { APPROVAL_STATES, type Approval } from "../api/types";
import { cause, describe, humanise, isFinal, isOver, isSettled, isUnderway, outcomesToCheck, withKept } from "./states";

const ana = { id: "u-ana", name: "Ana" };
const base: Approval = {
  approval_id: "a1",
  state: "pending",
  conversation_id: "c1",
  turn_id: "t1",
  tool_call_id: "k1",
  tool: "post_message",
  tool_name: "demo__post_message",
  connection: { id: "n1", type: "demo", title: "Demo workspace", account: "Lakeside workspace" },
  arguments: {},
  arguments_sha256: "",
  definition_hash: "",
  intent: null,
  risk: "medium",
  requester: ana,
  approver: "requester",
  created_at: "2026-01-05T08:00:00Z",
  decide_by: "2026-01-06T08:00:00Z",
  run_by: null,
  decided_by: ana,
  decided_how: "web",
  decided_at: "2026-01-05T08:01:00Z",
  reason: null,
  attempts: 0,
  result: null,
  outcome_note: null,
  supersedes: null,
  superseded_by: null,
  resolved_by: ana,
  resolved_reason: null,
  can_decide: true,
  can_resolve: true,
};

group("the words for a state", () => {
  it("are different for every state", () => {
    const sentences = APPROVAL_STATES.map((state) => describe({ ...base, state }).sentence);
    expect(new Set(sentences).size).toBe(13);
  });

  it("say of every state without an effect that nothing was done", () => {
    for (const state of ["rejected", "expired", "voided", "superseded", "blocked"] as const) {
      expect(describe({ ...base, state }).sentence).toMatch(/nothing was done/i);
    }
  });

  it("never say of an unknown outcome that it happened or did not", () => {
    const { sentence } = describe({ ...base, state: "unknown" });
    expect(sentence).toBe(
      "We don't know whether this happened. Toshi won't try again. Check in Demo workspace, then say what you found.",
    );
  });

  it("do not word a run-out time as a person's no", () => {
    expect(describe({ ...base, state: "expired", decided_at: null }).sentence).toBe(
      "Nobody answered in time, so nothing was done.",
    );
    expect(describe({ ...base, state: "expired" }).sentence).toContain("Approved by Ana");
  });

  it("say that time is up as soon as it is, and only of what still waits", () => {
    const end = Date.parse("2026-01-06T08:00:00Z");
    expect(isOver(base, end - 1)).toBe(false);
    expect(isOver(base, end)).toBe(true);
    expect(isOver({ ...base, state: "approved" }, end)).toBe(false);
    for (const can_decide of [true, false]) {
      expect(describe({ ...base, can_decide }, "u-ana", true)).toEqual({
        label: "Time is up",
        sentence: "Time is up. Nothing was done.",
        tone: "quiet",
      });
    }
    expect(describe({ ...base, state: "approved" }, "u-ana", true).label).toBe("Approved");
  });

  it("call the reader you", () => {
    expect(describe({ ...base, state: "rejected" }, "u-ana").sentence).toMatch(/^Rejected by you/);
    expect(describe({ ...base, state: "resolved_done" }, "u-ana").sentence).toMatch(/^You checked/);
    expect(describe({ ...base, state: "resolved_done" }).sentence).toMatch(/^Ana checked/);
  });

  it("say whose answer is awaited when it is somebody else's", () => {
    const others = { ...base, can_decide: false };
    expect(describe(others).sentence).toContain("from Ana");
    expect(describe({ ...others, approver: "role:deputy" }).sentence).toContain("the role deputy");
    expect(describe({ ...others, approver: "second_person" }).sentence).toContain("a second person");
  });
});

it("the server's cause is shown where something did not happen as asked, and nowhere twice", () => {
  const noted = APPROVAL_STATES.filter((state) => cause({ ...base, state, outcome_note: "why" }) !== null);
  expect(noted).toEqual(["voided", "superseded", "blocked", "failed"]);
});

group("a state", () => {
  it("is polled until it has no way on, and stays open for a person while unknown", () => {
    expect(APPROVAL_STATES.filter((state) => !isFinal(state))).toEqual(["pending", "approved", "executing", "unknown"]);
    expect(APPROVAL_STATES.filter(isUnderway)).toEqual(["approved", "executing"]);
  });

  it("lets the answer go on when it is settled, which superseded is not", () => {
    expect(APPROVAL_STATES.filter((state) => !isSettled(state))).toEqual(["pending", "approved", "superseded", "executing"]);
  });
});

it("a request that was answered stays in its place in the list", () => {
  const rows = (...ids: string[]) => ids.map((approval_id) => ({ ...base, approval_id }));
  const ids = (list: Approval[]) => list.map((row) => row.approval_id);
  expect(ids(withKept(rows("c", "a"), rows("b")))).toEqual(["c", "b", "a"]);
  expect(ids(withKept(rows("c", "b", "a"), rows("b")))).toEqual(["c", "b", "a"]);
});

it("outcomes to check are counted in words", () => {
  expect([1, 2].map(outcomesToCheck)).toEqual(["1 outcome to check", "2 outcomes to check"]);
});

it("a tool's name is made readable", () => {
  expect(humanise("post_message")).toBe("Post message");
  expect(humanise("createTask")).toBe("Create task");
});
