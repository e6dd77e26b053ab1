// The shapes of the HTTP interface. Hand-written; `npm run types` generates the same from OpenAPI.

export interface AppConfig {
  issuer: string;
  client_id: string;
  audience: string;
  scope: string;
  model: string;
  sandbox: boolean;
}

export interface Person {
  id: string;
  name: string;
}

export type Capability =
  | "chat"
  | "approvals.decide"
  | "approvals.resolve"
  | "audit.read"
  | "llm.health";

export interface Me {
  user_id: string;
  name: string;
  role: string;
  tenant: { id: string; name: string } | null;
  capabilities: (Capability | (string & {}))[];
  agent?: { model: string };
}

export interface Page<T> {
  items: T[];
  next: string | null;
}

export interface ConversationSummary {
  id: string;
  title: string | null;
  last_activity: string;
}

export const APPROVAL_STATES = [
  "pending",
  "approved",
  "rejected",
  "expired",
  "voided",
  "superseded",
  "executing",
  "blocked",
  "succeeded",
  "failed",
  "unknown",
  "resolved_done",
  "resolved_not_done",
] as const;

export type ApprovalState = (typeof APPROVAL_STATES)[number];
export type Decision = "approve" | "reject";
export type Outcome = "done" | "not_done";
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Approval {
  approval_id: string;
  state: ApprovalState;
  conversation_id: string;
  turn_id: string;
  tool_call_id: string;
  tool: string;
  tool_name: string;
  /** What a person reads instead of the tool's name. */
  tool_title?: string;
  /** What the call does, in the catalogue's words. */
  effect?: string | null;
  connection: { id: string; type: string; title: string; account: string };
  arguments: { [key: string]: Json };
  arguments_sha256: string;
  definition_hash: string;
  intent: string | null;
  risk: "low" | "medium" | "high";
  requester: Person;
  approver: string;
  created_at: string;
  /** Absent only on a damaged row, which counts as expired. */
  decide_by: string | null;
  run_by: string | null;
  decided_by: Person | null;
  decided_how: string | null;
  decided_at: string | null;
  reason: string | null;
  attempts: number;
  result: Json;
  outcome_note: string | null;
  supersedes: string | null;
  superseded_by: string | null;
  resolved_by?: Person | string | null;
  resolved_reason?: string | null;
  resolved_at?: string | null;
  can_decide: boolean;
  can_resolve: boolean;
}

export interface AuditRecord {
  subject: string;
  seq: number;
  event: string;
  at: string;
  conversation_id: string | null;
  turn_id: string | null;
  approval_id: string | null;
  connection_id: string | null;
  tool: string | null;
  actor: { kind: string; id: string | null; name: string | null };
  how: string | null;
  request_id: string | null;
  detail: { [key: string]: Json } | null;
  arguments_hmac: string | null;
  prev: string | null;
  hash: string;
}

export interface Verification {
  ok: boolean;
  sealed_to: string | null;
  checked: number;
  first_bad: { subject: string; seq: number; problem: string } | null;
  next: string | null;
}

export interface ProblemBody {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  decided?: { decision: Decision; by: Person | string | null; at: string; state: ApprovalState };
}
