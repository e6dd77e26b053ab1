import { useInfiniteQuery } from "@tanstack/react-query";
import { api } from "../api/client";
import { explain } from "../api/problem";
import type { AuditRecord } from "../api/types";
import { useTitle } from "../ui/hooks";
import { Empty, Failed, Loading } from "../ui/parts";
import { dayHeading } from "../ui/time";
import { Record } from "./Record";
import { Verify } from "./Verify";

export function AuditPage() {
  useTitle("Audit");
  const query = useInfiniteQuery({
    queryKey: ["audit", "recent"],
    queryFn: ({ pageParam, signal }) => api.audit({ limit: 50, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="page">
      <h1>Audit</h1>
      <p className="page-lead">Everything that Toshi was asked, was allowed and did, newest first. Records are only ever added.</p>
      <Verify />
      {query.isPending && <Loading what="the records" />}
      {query.isError && !query.data && <Failed sentence={explain(query.error)} onRetry={() => void query.refetch()} />}
      {query.isSuccess && items.length === 0 && <Empty title="Nothing has been recorded yet." />}
      {byDay(items).map(([day, records]) => (
        <section key={day} className="page-section" aria-label={day}>
          <h2>{day}</h2>
          <ol className="timeline">
            {records.map((record) => (
              <Record key={record.hash} record={record} link />
            ))}
          </ol>
        </section>
      ))}
      {query.hasNextPage && (
        <button type="button" className="button" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Show older records
        </button>
      )}
    </div>
  );
}

function byDay(items: AuditRecord[]): [string, AuditRecord[]][] {
  const days = new Map<string, AuditRecord[]>();
  for (const item of items) {
    const day = dayHeading(item.at);
    const list = days.get(day);
    if (list) list.push(item);
    else days.set(day, [item]);
  }
  return [...days];
}
