import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ApprovalCard } from "../approvals/ApprovalCard";
import { isFinal } from "../approvals/states";
import { api } from "../api/client";
import { explain } from "../api/problem";
import { POLL_MS, useApproval } from "../api/queries";
import { useTitle } from "../ui/hooks";
import { Empty, Failed, Loading } from "../ui/parts";
import { dayHeading } from "../ui/time";
import { Record } from "./Record";
import { Verify } from "./Verify";

export function TimelinePage() {
  useTitle("What happened");
  const { approvalId } = useParams({ from: "/audit/$approvalId" });
  const row = useApproval(approvalId).data;
  const query = useQuery({
    queryKey: ["audit", "approval", approvalId],
    queryFn: ({ signal }) => api.audit({ approval: approvalId, limit: 100 }, signal),
    refetchInterval: () => (row && isFinal(row.state) ? false : POLL_MS),
  });
  const items = query.data?.items ?? [];
  const first = items[0];
  return (
    <div className="page">
      <p className="back">
        <Link to="/audit">All records</Link>
      </p>
      <h1>What happened</h1>
      <section className="page-section" aria-labelledby="timeline">
        <h2 id="timeline">
          Step by step
          {first && <span className="soft"> · {dayHeading(first.at)}</span>}
        </h2>
        {query.isPending && <Loading what="the records" />}
        {query.isError && !query.data && <Failed sentence={explain(query.error)} onRetry={() => void query.refetch()} />}
        {query.isSuccess && items.length === 0 && <Empty title="There are no records of this request." />}
        <ol className="timeline">
          {items.map((record) => (
            <Record key={record.hash} record={record} link={false} />
          ))}
        </ol>
        {items.length > 0 && <Verify approval={approvalId} />}
      </section>
      <section className="page-section" aria-labelledby="request">
        <h2 id="request">The request</h2>
        <ApprovalCard id={approvalId} showConversation hideTimeline />
      </section>
    </div>
  );
}
