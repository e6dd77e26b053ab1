import { humanise } from "../approvals/states";
import type { AuditRecord, Json, Verification } from "../api/types";

const HOW: Record<string, string> = {
  web: "in the web console",
  chat: "in the chat",
  whatsapp: "on WhatsApp",
  cli: "from the command line",
  api: "through the interface",
  mcp: "through another agent",
};

export function how(record: AuditRecord): string {
  if (!record.how || record.how === "system") return "";
  return HOW[record.how] ?? `by ${record.how}`;
}

export function actor(record: AuditRecord): string {
  if (record.actor.kind === "system") return "Toshi";
  return record.actor.name ?? record.actor.id ?? "Someone";
}

function text(detail: AuditRecord["detail"], ...keys: string[]): string | null {
  for (const key of keys) {
    const value: Json | undefined = detail?.[key];
    if (typeof value === "string" && value) return value;
    if (typeof value === "number") return String(value);
  }
  return null;
}

const TOOLS: Record<string, string> = {
  post_message: "Post a message",
  list_messages: "Read messages",
  list_channels: "List channels",
};

/** The tool as the chat calls it; one that has no such words here by its own name. */
export function toolTitle(record: AuditRecord): string | null {
  const name = record.tool?.replace(/^.*__/, "");
  if (!name) return null;
  return Object.hasOwn(TOOLS, name) ? (TOOLS[name] ?? name) : name;
}

/** What happened, in one sentence. */
export function sentence(record: AuditRecord): string {
  const who = actor(record);
  const title = toolTitle(record);
  const tool = title ? `“${title}”` : "a tool";
  const whom = record.actor.kind === "system" ? "" : `, for ${who}`;
  const { detail } = record;
  switch (record.event) {
    case "requested":
      return `Toshi asked for permission to use ${tool}${whom}.`;
    case "shown":
      return record.actor.kind === "system" ? "The request was shown." : `The request was shown to ${who}.`;
    case "decided": {
      const decision = text(detail, "answer", "decision");
      if (decision === "approve" || decision === "approved") return `${who} approved it.`;
      if (decision === "reject" || decision === "rejected") return `${who} rejected it.`;
      return `${who} answered.`;
    }
    case "refused":
      return `An answer from ${who} was not accepted.`;
    case "claimed":
      return "Toshi took up the approved call and sent it.";
    case "attempted":
      return `The call was sent${attempt(detail)}.`;
    case "late_result":
      return "The tool's true answer arrived late and was recorded.";
    case "settled":
      switch (text(detail, "outcome", "state")) {
        case "succeeded":
          return "It was done.";
        case "failed":
          return "It did not work.";
        case "unknown":
          return "No answer came back: it is not known whether it was done.";
        default:
          return "The outcome was recorded.";
      }
    case "expired":
      return text(detail, "was") === "approved"
        ? "The approved call could not be started in time, so nothing was done."
        : "The time to answer was over, so nothing was done.";
    case "voided":
      return "The request was withdrawn, because something it relied on changed.";
    case "superseded":
      return "A newer request took the place of this one.";
    case "blocked":
      return "It was stopped before it was sent. Nothing was done.";
    case "resolved":
      switch (text(detail, "outcome")) {
        case "done":
          return `${who} checked and found that it was done.`;
        case "not_done":
          return `${who} checked and found that it was not done.`;
        default:
          return `${who} said what became of it.`;
      }
    case "read":
      return `Toshi read with ${tool}${whom}.`;
    default:
      return `${humanise(record.event)}.`;
  }
}

/** How an outcome is coloured; the words never depend on it. */
export function outcome(record: AuditRecord): "good" | "bad" | "ask" | "none" {
  if (record.event === "refused" || record.event === "blocked") return "bad";
  if (record.event !== "settled") return "none";
  const state = text(record.detail, "outcome", "state");
  return state === "succeeded" ? "good" : state === "unknown" ? "ask" : "bad";
}

function attempt(detail: AuditRecord["detail"]): string {
  const number = text(detail, "number");
  return number && number !== "1" ? ` again (attempt ${number})` : "";
}

/** A person's own words that belong to the record. */
export function remark(record: AuditRecord): string | null {
  return text(record.detail, "reason", "note");
}

export function verdict(result: Verification): { ok: boolean; text: string } {
  const records = result.checked === 1 ? "1 record" : `${result.checked} records`;
  if (result.ok) {
    const seal = result.sealed_to
      ? ` Everything up to ${result.sealed_to} is also sealed with a signature.`
      : " No seal has been signed yet, so a request, a refused answer or an answer's reads that were removed as a whole would not be noticed.";
    return {
      ok: true,
      text:
        result.checked === 0
          ? `There is nothing to check yet.${seal}`
          : `Checked ${records} against what they belong to. Nothing was changed, put in between or cut off.${seal}`,
    };
  }
  const bad = result.first_bad;
  return {
    ok: false,
    text: bad
      ? `Checked ${records}. The chain breaks at record ${bad.seq} of ${bad.subject}: ${bad.problem}. Tell the people who run Toshi.`
      : `Checked ${records}. The chain is broken. Tell the people who run Toshi.`,
  };
}
