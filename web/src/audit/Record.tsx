import { Link } from "@tanstack/react-router";
import type { AuditRecord } from "../api/types";
import { exact, toTheSecond } from "../ui/time";
import { Exact, Values } from "../ui/Values";
import { how, outcome, remark, sentence, toolTitle } from "./words";

/** One thing that happened, in words, with the stored record behind a toggle. */
export function Record({ record, link }: { record: AuditRecord; link: boolean }) {
  const said = remark(record);
  const way = how(record);
  const title = toolTitle(record);
  const words = sentence(record);
  return (
    <li className={`event event-${record.event} outcome-${outcome(record)}`}>
      <time className="event-time" dateTime={record.at} title={exact(record.at)}>
        {toTheSecond(record.at)}
      </time>
      <div className="event-body">
        <p className="event-sentence">
          {link && title && !words.includes(title) && <strong className="event-tool">{title}: </strong>}
          {words}
          {way && <span className="event-how"> {capital(way)}.</span>}
        </p>
        {said && (
          <p className="event-remark">
            <Exact text={said} />
          </p>
        )}
        <div className="event-more">
          {link && record.approval_id && (
            <Link to="/audit/$approvalId" params={{ approvalId: record.approval_id }}>
              {title ? `${title}: the whole request` : "The whole request"}
            </Link>
          )}
          <details>
            <summary aria-label={`Record ${record.seq}: ${record.event}, as stored`}>As stored</summary>
            <Values
              label="The record"
              value={{
                record: `${record.seq} of ${record.subject}`,
                event: record.event,
                actor: record.actor.name ? `${record.actor.name} (${record.actor.id ?? record.actor.kind})` : record.actor.kind,
                request: record.request_id,
                detail: record.detail,
                previous: record.prev,
                hash: record.hash,
              }}
            />
          </details>
        </div>
      </div>
    </li>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
