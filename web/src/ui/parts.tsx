import type { ReactNode } from "react";
import { clock, exact } from "./time";

export function Notice(props: { tone: "info" | "good" | "bad" | "wait"; children: ReactNode; onDismiss?: () => void; live?: boolean }) {
  const { tone, children, onDismiss, live } = props;
  return (
    <div className={`notice notice-${tone}`} role={live ? (tone === "bad" ? "alert" : "status") : undefined}>
      <div className="notice-text">{children}</div>
      {onDismiss && (
        <button type="button" className="button-icon" aria-label="Dismiss this notice" onClick={onDismiss}>
          <span aria-hidden="true">×</span>
        </button>
      )}
    </div>
  );
}

export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {clock(at)}
    </time>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p className="loading" role="status">
      <span className="spinner" aria-hidden="true" />
      Loading {what}…
    </p>
  );
}

export function Failed(props: { sentence: string; onRetry: () => void }) {
  return (
    <Notice tone="bad" live>
      <p>{props.sentence}</p>
      <button type="button" className="button button-small" onClick={props.onRetry}>
        Try again
      </button>
    </Notice>
  );
}

export function Empty(props: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
    </div>
  );
}
