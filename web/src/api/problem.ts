import type { Person, ProblemBody } from "./types";
import { clock } from "../ui/time";

/** An answer of the API that is not a success, kept with what it says. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly body: ProblemBody;
  readonly retryAfter: number | null;

  constructor(status: number, body: ProblemBody, retryAfter: number | null = null) {
    super(body.detail ?? body.title ?? `The server answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = body.code ?? "";
    this.body = body;
    this.retryAfter = retryAfter;
  }
}

export async function problemFrom(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  const wait = Number(response.headers.get("retry-after"));
  return new Problem(response.status, parseBody(text), Number.isFinite(wait) && wait > 0 ? wait : null);
}

function parseBody(text: string): ProblemBody {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as ProblemBody) : {};
  } catch {
    return {};
  }
}

export function nameOf(person: Person | string | null | undefined): string {
  if (!person) return "someone";
  return typeof person === "string" ? person : person.name || person.id;
}

/** One sentence a person in a school office understands, for any failure. */
export function explain(error: unknown): string {
  if (error instanceof Problem) {
    const { detail } = error.body;
    switch (error.code) {
      case "token_expired":
        return "Your sign-in has ended. Sign in again to go on.";
      case "starting":
        return "Toshi is starting. Try again in a moment.";
      case "turn_in_progress":
        return detail ?? "Toshi is still answering. Wait for the answer, then send your message.";
      case "already_decided": {
        const decided = error.body.decided;
        if (!decided) return detail ?? "This request was already answered.";
        const verb = decided.decision === "approve" ? "approved" : "rejected";
        return `This request was already ${verb} by ${nameOf(decided.by)} at ${clock(decided.at)}. Your answer changed nothing.`;
      }
      case "expired":
        return "The time to answer is over, so nothing was done. Ask Toshi again if it is still needed.";
      case "not_yours":
        return detail ?? "This request is for somebody else to answer. Your answer was not taken.";
      case "too_large":
        return "This message is too long. Shorten it and send it again.";
    }
    if (error.status === 404) return "This no longer exists, or it is not yours to see.";
    if (error.status === 413) return "This message is too long. Shorten it and send it again.";
    if (error.status === 429) {
      const wait = error.retryAfter ? `Try again in ${error.retryAfter} seconds.` : "Wait a moment and try again.";
      return `That was too much at once. ${wait}`;
    }
    if (detail) return detail;
    if (error.status >= 500) return "Toshi has a problem on its side. Try again in a moment.";
    return error.body.title ?? `Toshi could not do this (answer ${error.status}).`;
  }
  if (error instanceof TypeError) return "Toshi can't be reached. Check your connection and try again.";
  if (error instanceof Error && error.message) return error.message;
  return "Something went wrong. Try again.";
}
