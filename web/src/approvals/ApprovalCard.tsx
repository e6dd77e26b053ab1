import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { api } from "../api/client";
import { explain } from "../api/problem";
import { can, useApproval, useMe } from "../api/queries";
import type { Approval, ApprovalState, Decision, Outcome } from "../api/types";
import { readDraft, writeDraft } from "../chat/drafts";
import { announce } from "../ui/announce";
import { useNow } from "../ui/hooks";
import { Exact, Values } from "../ui/Values";
import { Notice, Time } from "../ui/parts";
import { exact, remaining } from "../ui/time";
import { resultText } from "./result";
import { cause, describe, humanise, isFinal, isOver, RISK_WORDS, titleOf } from "./states";

export interface CardProps {
  id: string;
  /** The tool's name for people, when the stream brought one. */
  title?: string;
  headingLevel?: 2 | 3;
  /** Called when a decision was stored, and when the stored state changed by itself. */
  onChange?: (state: ApprovalState, why: "decided" | "changed") => void;
  /** Called with the row as it was when the person's answer was sent. */
  onAct?: (row: Approval) => void;
  /** On pages other than the chat. */
  showConversation?: boolean;
  /** On the page that shows the timeline already. */
  hideTimeline?: boolean;
}

/** One approval as it is stored. It never shows a state that it did not read. */
export function ApprovalCard(props: CardProps) {
  const { id, onChange } = props;
  const query = useApproval(id);
  const row = query.data;
  const state = row?.state;
  const seen = useRef<ApprovalState | undefined>(undefined);

  useEffect(() => {
    if (!state) return;
    const before = seen.current;
    seen.current = state;
    if (before && before !== state) onChange?.(state, "changed");
  }, [state, onChange]);

  if (!row) {
    return (
      <article className="card" aria-label="Request for approval">
        {query.isError ? (
          <Notice tone="bad">
            <p>The state of this request can't be read. {explain(query.error)}</p>
            <button type="button" className="button button-small" onClick={() => void query.refetch()}>
              Try again
            </button>
          </Notice>
        ) : (
          <p className="loading">
            <span className="spinner" aria-hidden="true" />
            Reading the state of this request…
          </p>
        )}
      </article>
    );
  }
  return (
    <>
      <Card {...props} row={row} stale={query.isError} />
      {row.state === "superseded" && row.superseded_by && <ApprovalCard {...props} id={row.superseded_by} />}
    </>
  );
}

/**
 * The request that was answered last here. A followed answer is rebuilt from its start, and the card
 * with it: the focus that the old card had goes to the new one.
 */
let answeredLast: string | null = null;

function Card(props: CardProps & { row: Approval; stale: boolean }) {
  const { row, stale, onChange, showConversation } = props;
  const me = useMe().data;
  const headingId = useId();
  const queries = useQueryClient();
  const Heading = props.headingLevel === 2 ? "h2" : "h3";
  const title = row.tool_title || props.title || titleOf(row);
  const { connection } = row;
  const headingRef = useRef<HTMLHeadingElement>(null);

  const onStored = (state: ApprovalState) => {
    // The buttons are gone now: the focus goes to the card that they belonged to.
    answeredLast = row.approval_id;
    requestAnimationFrame(() => headingRef.current?.focus());
    onChange?.(state, "decided");
  };
  const sender = useSender(row.approval_id, {
    onSend: () => props.onAct?.(row),
    onStored,
    onRefused: () =>
      requestAnimationFrame(() => {
        if (document.activeElement === document.body) headingRef.current?.focus();
      }),
  });
  // An answer on its way may still have been in time: only the server knows.
  const over = isOver(row, useNow()) && !sender.sending;
  const open = row.state === "pending" && !over;
  const words = describe(row, me?.user_id, over);
  const spoken = useRef(words.sentence);

  useEffect(() => {
    if (over) void queries.invalidateQueries({ queryKey: ["approval", row.approval_id] });
  }, [over, row.approval_id, queries]);

  useEffect(() => {
    const lost = document.activeElement === document.body;
    if (lost && answeredLast === row.approval_id) headingRef.current?.focus({ preventScroll: true });
  }, [row.approval_id]);

  useEffect(() => {
    if (spoken.current === words.sentence) return;
    spoken.current = words.sentence;
    announce(`${title}: ${words.sentence}`);
  }, [words.sentence, title]);

  return (
    <article className={`card card-${words.tone}`} aria-labelledby={headingId} data-approval={row.approval_id} data-state={row.state}>
      <header className="card-head">
        <div className="card-title">
          <Heading id={headingId} ref={headingRef} tabIndex={-1}>{title}</Heading>
          <p className="card-where">
            in <strong>{connection.title}</strong> as <strong>{connection.account}</strong>
            <span className="card-connector"> · {humanise(connection.type)} connector</span>
          </p>
        </div>
        <div className="card-badges">
          <span className={`badge badge-${words.tone}`}>{words.label}</span>
          {open && <Countdown until={row.decide_by} />}
        </div>
      </header>

      {row.intent && (
        <figure className="intent">
          <figcaption>Toshi's words, written by the assistant</figcaption>
          <blockquote>
            <Exact text={row.intent} />
          </blockquote>
        </figure>
      )}

      <div className="card-section">
        <p className="card-label">{open ? "Exactly this will be used" : "What was asked for"}</p>
        <Values value={row.arguments} label="The values" />
      </div>

      {open && (
        <p className="card-effect">
          {row.effect && <strong className="effect">{row.effect} </strong>}
          If it is approved, Toshi does this <strong>once</strong>, with exactly these values. If not, nothing happens.{" "}
          <span className={`risk risk-${row.risk}`}>{RISK_WORDS[row.risk]}</span>
        </p>
      )}

      <div className={`card-state state-${words.tone}`}>
        <p className="state-sentence">{words.sentence}</p>
        {row.reason && (
          <p>
            Reason given: <Exact text={row.reason} />
          </p>
        )}
        {cause(row) && <p>{cause(row)}</p>}
        {row.resolved_reason && (
          <p>
            What was found: <Exact text={row.resolved_reason} />
          </p>
        )}
      </div>

      {/* Stays when the row that was read again offers no buttons any more. */}
      {sender.problem && (
        <Notice tone="bad" live onDismiss={sender.dismiss}>
          {sender.problem}
        </Notice>
      )}

      {row.result !== null && row.result !== undefined && <Result row={row} />}

      {open && row.can_decide && can(me, "approvals.decide") && <Decide row={row} sender={sender} />}
      {row.state === "unknown" && row.can_resolve && <Resolve row={row} sender={sender} />}

      {stale && !isFinal(row.state) && (
        <Notice tone="wait">The newest state can't be read at the moment. This is the last one that was read.</Notice>
      )}

      <footer className="card-foot">
        <span>
          Asked <Time at={row.created_at} /> for {row.requester.id === me?.user_id ? "you" : row.requester.name}
        </span>
        <span className="card-links">
          {showConversation && (
            <Link to="/chat/{-$id}" params={{ id: row.conversation_id }}>
              Open the conversation
            </Link>
          )}
          {can(me, "audit.read") && !props.hideTimeline && (
            <Link to="/audit/$approvalId" params={{ approvalId: row.approval_id }}>
              What happened, step by step
            </Link>
          )}
        </span>
      </footer>
    </article>
  );
}

function Result({ row }: { row: Approval }) {
  const text = resultText(row.result);
  return (
    <div className="card-section">
      <p className="card-label">Answer from {row.connection.title}</p>
      {text === null ? <Values value={row.result} label="The answer" /> : <p className="result-text"><Exact text={text} /></p>}
    </div>
  );
}

function Countdown({ until }: { until: string | null }) {
  const { over, text } = remaining(until, useNow());
  return (
    <span className="countdown" role="timer" title={until ? `Until ${exact(until)}` : undefined}>
      {over ? "Time is up" : `${text} left to answer`}
    </span>
  );
}

/** Sends something about a row and shows the row that came back, or says in words why it did not work. */
function useSender(
  id: string,
  on: { onSend: () => void; onStored: (state: ApprovalState) => void; onRefused: () => void },
) {
  const queries = useQueryClient();
  const [sending, setSending] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const send = async (label: string, request: () => Promise<Approval>): Promise<boolean> => {
    if (sending) return false;
    setSending(label);
    setProblem(null);
    on.onSend();
    announce(label);
    try {
      const row = await request();
      queries.setQueryData(["approval", id], row);
      void queries.invalidateQueries({ queryKey: ["approvals"] });
      void queries.invalidateQueries({ queryKey: ["audit"] });
      on.onStored(row.state);
      return true;
    } catch (error) {
      setProblem(explain(error));
      await queries.invalidateQueries({ queryKey: ["approval", id] });
      void queries.invalidateQueries({ queryKey: ["approvals"] });
    } finally {
      setSending(null);
    }
    on.onRefused();
    return false;
  };
  return { sending, problem, send, dismiss: () => setProblem(null) };
}

type Sender = ReturnType<typeof useSender>;

function Decide({ row, sender }: { row: Approval; sender: Sender }) {
  const draft = `reject.${row.approval_id}`;
  const [rejecting, setRejecting] = useState(() => readDraft(draft).text !== "");
  const [reason, setReason] = useState(() => readDraft(draft).text);
  const { sending, send } = sender;
  const fieldId = useId();
  const rejectButton = useRef<HTMLButtonElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);

  const decide = async (decision: Decision) => {
    const label = decision === "approve" ? "Your approval is being sent…" : "Your rejection is being sent…";
    const stored = await send(label, () => api.decide(row.approval_id, decision, decision === "reject" ? reason.trim() : undefined));
    if (stored) writeDraft(draft, { text: "" });
  };

  const write = (text: string) => {
    setReason(text);
    writeDraft(draft, { text });
  };

  const back = () => {
    setRejecting(false);
    write("");
    requestAnimationFrame(() => rejectButton.current?.focus());
  };

  useEffect(() => {
    if (rejecting) field.current?.focus();
  }, [rejecting]);

  return (
    <div className="card-actions">
      {rejecting ? (
        <form
          className="reason"
          onSubmit={(event) => {
            event.preventDefault();
            void decide("reject");
          }}
        >
          <label htmlFor={fieldId}>
            Why not? <span className="optional">(optional, Toshi is told)</span>
          </label>
          <textarea
            id={fieldId}
            ref={field}
            rows={2}
            maxLength={1000}
            value={reason}
            onChange={(event) => write(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape" && !event.nativeEvent.isComposing && !sending) back();
            }}
          />
          <Buttons>
            <button type="submit" className="button button-danger" disabled={sending !== null}>
              Reject
            </button>
            <button
              type="button"
              className="button"
              disabled={sending !== null}
              onClick={back}
            >
              Back
            </button>
          </Buttons>
        </form>
      ) : (
        <Buttons>
          <button
            type="button"
            className="button button-primary"
            disabled={sending !== null}
            onClick={() => void decide("approve")}
          >
            Approve
          </button>
          <button
            type="button"
            ref={rejectButton}
            className="button"
            disabled={sending !== null}
            onClick={() => setRejecting(true)}
          >
            Reject…
          </button>
        </Buttons>
      )}
      {sending && <Sending label={sending} />}
    </div>
  );
}

function Resolve({ row, sender }: { row: Approval; sender: Sender }) {
  const draft = `resolve.${row.approval_id}`;
  const [reason, setReason] = useState(() => readDraft(draft).text);
  const [missing, setMissing] = useState(false);
  const { sending, send } = sender;
  const fieldId = useId();
  const hintId = useId();
  const field = useRef<HTMLTextAreaElement>(null);

  const resolve = async (outcome: Outcome) => {
    if (!reason.trim()) {
      setMissing(true);
      field.current?.focus();
      return;
    }
    const stored = await send("What you found is being sent…", () => api.resolve(row.approval_id, outcome, reason.trim()));
    if (stored) writeDraft(draft, { text: "" });
  };

  return (
    <div className="card-actions">
      <form className="reason" onSubmit={(event) => event.preventDefault()}>
        <label htmlFor={fieldId}>What did you find in {row.connection.title}?</label>
        <textarea
          id={fieldId}
          ref={field}
          rows={2}
          maxLength={1000}
          required
          aria-invalid={missing}
          aria-describedby={missing ? hintId : undefined}
          value={reason}
          onChange={(event) => {
            setReason(event.target.value);
            setMissing(false);
            writeDraft(draft, { text: event.target.value });
          }}
        />
        {missing && (
          <p id={hintId} className="field-error" role="alert">
            Write one sentence first. It is kept in the audit.
          </p>
        )}
        <Buttons>
          <button type="button" className="button" disabled={sending !== null} onClick={() => void resolve("done")}>
            It was done
          </button>
          <button type="button" className="button" disabled={sending !== null} onClick={() => void resolve("not_done")}>
            It was not done
          </button>
        </Buttons>
      </form>
      {sending && <Sending label={sending} />}
    </div>
  );
}

function Buttons({ children }: { children: ReactNode }) {
  return <div className="buttons">{children}</div>;
}

function Sending({ label }: { label: string }) {
  return (
    <p className="sending">
      <span className="spinner" aria-hidden="true" />
      {label}
    </p>
  );
}
