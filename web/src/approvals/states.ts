import { nameOf } from "../api/problem";
import type { Approval, ApprovalState } from "../api/types";
import { clock, remaining } from "../ui/time";

export type Tone = "wait" | "busy" | "good" | "bad" | "ask" | "quiet";

export interface StateWords {
  /** Two or three words for the badge. */
  label: string;
  /** What this state means for the person, complete. */
  sentence: string;
  tone: Tone;
}

/** States in which nobody needs to do or watch anything more. */
const FINAL: Record<ApprovalState, boolean> = {
  pending: false,
  approved: false,
  executing: false,
  unknown: false,
  rejected: true,
  expired: true,
  voided: true,
  superseded: true,
  blocked: true,
  succeeded: true,
  failed: true,
  resolved_done: true,
  resolved_not_done: true,
};

export function isFinal(state: ApprovalState): boolean {
  return FINAL[state];
}

/** Between a yes and its outcome. */
export function isUnderway(state: ApprovalState): boolean {
  return state === "approved" || state === "executing";
}

/** A person has said what became of an unknown outcome. */
export function isResolved(state: ApprovalState): boolean {
  return state === "resolved_done" || state === "resolved_not_done";
}

/** The model may go on: a successor stands in for `superseded`. */
export function isSettled(state: ApprovalState): boolean {
  return state === "unknown" || (FINAL[state] && state !== "superseded");
}

/** Nobody can answer any more, even while the stored row does not say so yet. */
export function isOver(approval: Approval, now: number): boolean {
  return approval.state === "pending" && remaining(approval.decide_by, now).over;
}

export function describe(approval: Approval, myId?: string, over = false): StateWords {
  const workspace = approval.connection.title;
  const who = approval.decided_by?.id === myId && myId ? "you" : nameOf(approval.decided_by);
  const when = approval.decided_at ? ` at ${clock(approval.decided_at)}` : "";
  const checker = personIs(approval.resolved_by, myId) ? "You" : capital(nameOf(approval.resolved_by));
  switch (approval.state) {
    case "pending":
      if (over) return { label: "Time is up", sentence: "Time is up. Nothing was done.", tone: "quiet" };
      return approval.can_decide
        ? { label: "Needs your answer", sentence: "Nothing has happened yet. Toshi waits for your answer.", tone: "wait" }
        : {
            label: "Waiting",
            sentence: `Nothing has happened yet. Toshi waits for an answer from ${waitingFor(approval)}.`,
            tone: "wait",
          };
    case "approved":
      return { label: "Approved", sentence: `Approved by ${who}${when}. Toshi is about to do it.`, tone: "busy" };
    case "executing":
      return { label: "Being done", sentence: `Approved by ${who}${when}. Toshi is doing it in ${workspace} now.`, tone: "busy" };
    case "succeeded":
      return { label: "Done", sentence: `Approved by ${who}${when}, and done in ${workspace}.`, tone: "good" };
    case "rejected":
      return { label: "Rejected", sentence: `Rejected by ${who}${when}. Nothing was done.`, tone: "quiet" };
    case "expired":
      return approval.decided_at
        ? {
            label: "Ran out of time",
            sentence: `Approved by ${who}${when}, but it could not be started in time. Nothing was done.`,
            tone: "quiet",
          }
        : { label: "Expired", sentence: "Nobody answered in time, so nothing was done.", tone: "quiet" };
    case "voided":
      return {
        label: "No longer valid",
        sentence: "Something this request relied on has changed, so it can't be answered any more. Nothing was done.",
        tone: "quiet",
      };
    case "superseded":
      return {
        label: "Replaced",
        sentence: "A newer request took the place of this one. Nothing was done with this one.",
        tone: "quiet",
      };
    case "blocked":
      return {
        label: "Blocked",
        sentence: `Approved by ${who}${when}, but it was stopped before it was sent. Nothing was done.`,
        tone: "bad",
      };
    case "failed":
      return { label: "Did not work", sentence: `Approved by ${who}${when}, but it did not work.`, tone: "bad" };
    case "unknown":
      return {
        label: "Not known",
        sentence: `We don't know whether this happened. Toshi won't try again. Check in ${workspace}, then say what you found.`,
        tone: "ask",
      };
    case "resolved_done":
      return { label: "Checked: done", sentence: `${checker} checked and found that it was done.`, tone: "good" };
    case "resolved_not_done":
      return { label: "Checked: not done", sentence: `${checker} checked and found that it was not done.`, tone: "quiet" };
  }
}

/** A list, newest first, with the rows in it that it no longer has. */
export function withKept(items: Approval[], kept: Approval[]): Approval[] {
  const gone = kept.filter((row) => !items.some((item) => item.approval_id === row.approval_id));
  // The ids begin with their time.
  return [...items, ...gone].sort((a, b) => (a.approval_id < b.approval_id ? 1 : -1));
}

export function outcomesToCheck(count: number): string {
  return count === 1 ? "1 outcome to check" : `${count} outcomes to check`;
}

function waitingFor(approval: Approval): string {
  if (approval.approver === "requester") return approval.requester.name;
  if (approval.approver.startsWith("role:")) return `a person with the role ${approval.approver.slice(5)}`;
  return "a second person";
}

function personIs(person: Approval["resolved_by"], myId: string | undefined): boolean {
  return typeof person === "object" && person !== null && person.id === myId;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The server's own words for a state, where they add a cause to ours. */
export function cause(approval: Approval): string | null {
  switch (approval.state) {
    case "failed":
    case "blocked":
    case "voided":
    case "superseded":
      return approval.outcome_note;
    default:
      return null;
  }
}

export const RISK_WORDS: Record<Approval["risk"], string> = {
  low: "Low risk",
  medium: "Medium risk. Check the details first.",
  high: "High risk. Check every detail first.",
};

/** The tool in words for people. */
export function titleOf(approval: Approval): string {
  return approval.tool_title || humanise(approval.tool);
}

/** `post_message` → `Post message`. */
export function humanise(name: string): string {
  const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/[_\-.]+/g, " ").trim().toLowerCase();
  return spaced ? capital(spaced) : name;
}
