import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useCallback, useState } from "react";
import { api } from "../api/client";
import { explain } from "../api/problem";
import { can, useMe, usePending, useUnknown } from "../api/queries";
import type { Approval, ApprovalState } from "../api/types";
import { useNow, useTitle } from "../ui/hooks";
import { Empty, Failed, Loading, Time } from "../ui/parts";
import { ApprovalCard } from "./ApprovalCard";
import { describe, isOver, titleOf, withKept } from "./states";

export function ApprovalsPage() {
  useTitle("Approvals");
  const me = useMe().data;
  const pending = usePending();
  const unknown = useUnknown();
  const now = useNow();
  const recent = useQuery({
    queryKey: ["approvals", "recent"],
    queryFn: ({ signal }) => api.approvals({ mine: true, limit: 30 }, signal),
    refetchInterval: 15_000,
  });
  // A card that the person acted on stays in its place, with what became of it, until the page is left.
  const [acted, setActed] = useState<Approval[]>([]);
  const keep = useCallback((row: Approval) => setActed((rows) => withKept(rows, [row])), []);
  const keptIn = (state: ApprovalState) => acted.filter((row) => row.state === state);
  const waiting = withKept(pending.waiting ?? [], keptIn("pending"));
  const toCheck = withKept(unknown.data?.items ?? [], keptIn("unknown"));
  const past = (items: Approval[]) =>
    items
      .filter((row) => (row.state === "pending" ? isOver(row, now) : row.state !== "unknown"))
      .filter((row) => !acted.some((one) => one.approval_id === row.approval_id));

  return (
    <div className="page">
      <h1>Approvals</h1>
      <p className="page-lead">Nothing is changed in your school's tools before a person says yes here or in the chat.</p>

      {can(me, "approvals.decide") && (
        <Section id="waiting" title="Waiting for you" query={pending} count={pending.waiting?.length} what="requests">
          {() =>
            waiting.length === 0 ? (
              <Empty title="Nothing waits for your answer.">
                When Toshi wants to change something for you, the request appears here.
              </Empty>
            ) : (
              <Cards items={waiting} onAct={keep} />
            )
          }
        </Section>
      )}

      <Section id="unknown" title="Outcome not known" query={unknown} count={unknown.data?.items.length} what="unknown outcomes">
        {() =>
          toCheck.length === 0 ? (
            <Empty title="Every outcome is known.">If an answer from a tool is ever lost, a person checks and says here what became of it.</Empty>
          ) : (
            <Cards items={toCheck} onAct={keep} />
          )
        }
      </Section>

      <Section id="recent" title="Recent" query={recent} what="recent requests">
        {(items) =>
          past(items).length === 0 ? (
            <Empty title="Nothing has been decided yet." />
          ) : (
            <ul className="recent">
              {past(items).map((row) => (
                <RecentRow key={row.approval_id} row={row} myId={me?.user_id} over={isOver(row, now)} />
              ))}
            </ul>
          )
        }
      </Section>
    </div>
  );
}

function Cards({ items, onAct }: { items: Approval[]; onAct: (row: Approval) => void }) {
  return (
    <div className="cards">
      {items.map((row) => (
        <ApprovalCard key={row.approval_id} id={row.approval_id} onAct={onAct} showConversation />
      ))}
    </div>
  );
}

function RecentRow({ row, myId, over }: { row: Approval; myId: string | undefined; over: boolean }) {
  const words = describe(row, myId, over);
  const summary = useCallback(() => {
    const first = Object.values(row.arguments).filter((value) => typeof value === "string");
    return first.join(" · ");
  }, [row.arguments]);
  return (
    <li>
      <details className="recent-row">
        <summary>
          <span className="recent-main">
            <span className="recent-title">
              {titleOf(row)} in {row.connection.title}
            </span>
            <span className="recent-args">{summary()}</span>
          </span>
          <span className="recent-side">
            <span className={`badge badge-${words.tone}`}>{words.label}</span>
            <Time at={row.decided_at ?? row.created_at} />
          </span>
        </summary>
        <ApprovalCard id={row.approval_id} showConversation />
      </details>
    </li>
  );
}

interface ListQuery {
  data?: { items: Approval[] };
  isPending: boolean;
  isError: boolean;
  error: unknown;
  refetch: () => unknown;
}

function Section(props: { id: string; title: string; what: string; query: ListQuery; count?: number; children: (items: Approval[]) => ReactNode }) {
  const { id, title, what, query, count = 0, children } = props;
  return (
    <section className="page-section" aria-labelledby={id}>
      <h2 id={id}>
        {title}
        {count > 0 && <span className="count">{count}</span>}
      </h2>
      {query.isPending && <Loading what={what} />}
      {query.isError && !query.data && <Failed sentence={explain(query.error)} onRetry={() => void query.refetch()} />}
      {query.data && children(query.data.items)}
    </section>
  );
}
