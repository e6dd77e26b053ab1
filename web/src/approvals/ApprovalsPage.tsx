import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useCallback } from "react";
import { api } from "../api/client";
import { explain } from "../api/problem";
import { can, useMe, usePending } from "../api/queries";
import type { Approval } from "../api/types";
import { useTitle } from "../ui/hooks";
import { Empty, Failed, Loading, Time } from "../ui/parts";
import { ApprovalCard } from "./ApprovalCard";
import { describe, titleOf } from "./states";

export function ApprovalsPage() {
  useTitle("Approvals");
  const me = useMe().data;
  const resolver = can(me, "approvals.resolve");
  const pending = usePending();
  const unknown = useQuery({
    queryKey: ["approvals", "unknown", resolver],
    queryFn: ({ signal }) => api.approvals({ state: "unknown", mine: resolver ? undefined : true, limit: 50 }, signal),
    refetchInterval: 15_000,
  });
  const recent = useQuery({
    queryKey: ["approvals", "recent"],
    queryFn: ({ signal }) => api.approvals({ mine: true, limit: 30 }, signal),
    refetchInterval: 15_000,
  });
  const past = (items: Approval[]) => items.filter((row) => row.state !== "pending" && row.state !== "unknown");

  return (
    <div className="page">
      <h1>Approvals</h1>
      <p className="page-lead">Nothing is changed in your school's tools before a person says yes here or in the chat.</p>

      {can(me, "approvals.decide") && (
        <Section id="waiting" title="Waiting for you" query={pending} what="requests">
          {(items) =>
            items.length === 0 ? (
              <Empty title="Nothing waits for your answer.">
                When Toshi wants to change something for you, the request appears here.
              </Empty>
            ) : (
              <Cards items={items} />
            )
          }
        </Section>
      )}

      <Section id="unknown" title="Outcome not known" query={unknown} what="unknown outcomes">
        {(items) =>
          items.length === 0 ? (
            <Empty title="Every outcome is known.">If an answer from a tool is ever lost, a person checks and says here what became of it.</Empty>
          ) : (
            <Cards items={items} />
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
                <RecentRow key={row.approval_id} row={row} myId={me?.user_id} />
              ))}
            </ul>
          )
        }
      </Section>
    </div>
  );
}

function Cards({ items }: { items: Approval[] }) {
  return (
    <div className="cards">
      {items.map((row) => (
        <ApprovalCard key={row.approval_id} id={row.approval_id} showConversation />
      ))}
    </div>
  );
}

function RecentRow({ row, myId }: { row: Approval; myId: string | undefined }) {
  const words = describe(row, myId);
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

function Section(props: { id: string; title: string; what: string; query: ListQuery; children: (items: Approval[]) => ReactNode }) {
  const { id, title, what, query, children } = props;
  return (
    <section className="page-section" aria-labelledby={id}>
      <h2 id={id}>
        {title}
        {query.data && query.data.items.length > 0 && id !== "recent" && <span className="count">{query.data.items.length}</span>}
      </h2>
      {query.isPending && <Loading what={what} />}
      {query.isError && !query.data && <Failed sentence={explain(query.error)} onRetry={() => void query.refetch()} />}
      {query.data && children(query.data.items)}
    </section>
  );
}
