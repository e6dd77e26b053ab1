import { accessToken, endSession, refresh } from "../auth/session";
import { learnServerTime } from "../ui/time";
import { Problem, problemFrom } from "./problem";
import type {
  Approval,
  ApprovalState,
  AuditRecord,
  ConversationSummary,
  Decision,
  Me,
  Outcome,
  Page,
  Verification,
} from "./types";

const RENEWABLE = new Set(["token_expired", "token_invalid", "token_missing"]);

/** `fetch` with the person's token. A 401 renews the token once, then asks for a new sign-in. */
export async function authFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const send = async () => {
    const headers = new Headers(init.headers);
    const token = await accessToken();
    if (!token) throw new Problem(401, { code: "token_expired" });
    headers.set("authorization", `Bearer ${token}`);
    const response = await fetch(input, { ...init, headers });
    learnServerTime(response.headers.get("date"));
    return response;
  };
  const first = await send();
  if (first.status !== 401) return first;
  // An account that is switched off is refused too; a new sign-in would not help it.
  const { code } = await problemFrom(first.clone());
  if (code && !RENEWABLE.has(code)) return first;
  if (!(await refresh())) return first;
  const second = await send();
  if (second.status === 401) endSession();
  return second;
}

/** For the chat transport: failures arrive as problems, not as raw bodies. */
export async function chatFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await authFetch(input, init);
  if (!response.ok) throw await problemFrom(response);
  return response;
}

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await authFetch(`/v1${path}`, {
    method,
    signal,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await problemFrom(response);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

function query(values: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== undefined && value !== null) search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

export interface MessagesPage extends Page<unknown> {
  running: boolean;
}

export const api = {
  me: (signal?: AbortSignal) => call<Me>("GET", "/me", undefined, signal),

  conversations: (cursor?: string | null, signal?: AbortSignal) =>
    call<Page<ConversationSummary>>("GET", `/conversations${query({ limit: 50, cursor })}`, undefined, signal),
  deleteConversation: (id: string) => call<void>("DELETE", `/conversations/${encodeURIComponent(id)}`),

  /** Every stored message, oldest first. */
  async messages(id: string, signal?: AbortSignal): Promise<MessagesPage> {
    const items: unknown[] = [];
    let cursor: string | null = null;
    let running = false;
    do {
      const page: MessagesPage = await call<MessagesPage>(
        "GET",
        `/conversations/${encodeURIComponent(id)}/messages${query({ limit: 100, cursor })}`,
        undefined,
        signal,
      );
      items.push(...page.items);
      running = page.running;
      cursor = page.next;
    } while (cursor);
    return { items, next: null, running };
  },

  approvals: (filter: { state?: ApprovalState; mine?: boolean; limit?: number }, signal?: AbortSignal) =>
    call<Page<Approval>>("GET", `/approvals${query(filter)}`, undefined, signal),
  approval: (id: string, signal?: AbortSignal) =>
    call<Approval>("GET", `/approvals/${encodeURIComponent(id)}`, undefined, signal),
  decide: (id: string, decision: Decision, reason?: string) =>
    call<Approval>("POST", `/approvals/${encodeURIComponent(id)}/decision`, reason ? { decision, reason } : { decision }),
  resolve: (id: string, outcome: Outcome, reason: string) =>
    call<Approval>("POST", `/approvals/${encodeURIComponent(id)}/resolve`, { outcome, reason }),

  audit: (filter: { approval?: string; limit?: number; cursor?: string | null }, signal?: AbortSignal) =>
    call<Page<AuditRecord>>("GET", `/audit${query(filter)}`, undefined, signal),
  /** One approval's records, or, part after part, all of the school's up to the first bad one. */
  async verify(approval?: string): Promise<Verification> {
    let cursor: string | null = null;
    let checked = 0;
    for (;;) {
      const part: Verification = await call<Verification>("GET", `/audit/verify${query({ approval, cursor })}`);
      checked += part.checked;
      if (!part.ok || !part.next) return { ...part, checked };
      cursor = part.next;
    }
  },
};

export function isProblem(error: unknown, status: number): boolean {
  return error instanceof Problem && error.status === status;
}
