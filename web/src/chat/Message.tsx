import { memo, useCallback } from "react";
import { ApprovalCard } from "../approvals/ApprovalCard";
import { resultText } from "../approvals/result";
import { humanise } from "../approvals/states";
import type { ApprovalState, Json } from "../api/types";
import { Markdown } from "../ui/Markdown";
import { Time } from "../ui/parts";
import { Exact, Values } from "../ui/Values";
import { approvalIdOf, type ApprovalDescriptor, isToolPart, textOf, type ToolPart, type ToshiMessage } from "./seed";

export type CardChange = (state: ApprovalState, why: "decided" | "changed") => void;

export const UserMessage = memo(function UserMessage({ message }: { message: ToshiMessage }) {
  return (
    <article className="message message-user" aria-label="You">
      <div className="bubble">
        <p className="said">{textOf(message)}</p>
      </div>
      {message.metadata?.created_at && (
        <p className="message-time">
          <Time at={message.metadata.created_at} />
        </p>
      )}
    </article>
  );
});

export const AssistantMessage = memo(function AssistantMessage(props: {
  message: ToshiMessage;
  writing: boolean;
  onCardChange: CardChange;
}) {
  const { message, writing, onCardChange } = props;
  const visible = message.parts.some((part) => isToolPart(part) || (part.type === "text" && part.text !== ""));
  return (
    <article className="message message-assistant" aria-label="Toshi" aria-busy={writing}>
      <p className="message-name" aria-hidden="true">
        Toshi
      </p>
      {message.parts.map((part, index) => {
        if (part.type === "text") return part.text ? <Markdown key={index} text={part.text} /> : null;
        if (isToolPart(part)) return <Tool key={part.toolCallId} part={part} onCardChange={onCardChange} />;
        return null;
      })}
      {writing && !visible && <Writing />}
    </article>
  );
});

export function Writing({ label = "Toshi is writing…" }: { label?: string }) {
  return (
    <p className="writing">
      <span className="dots" aria-hidden="true">
        <span />
        <span />
        <span />
      </span>
      {label}
    </p>
  );
}

function Tool({ part, onCardChange }: { part: ToolPart; onCardChange: CardChange }) {
  const id = approvalIdOf(part);
  const changed = useCallback<CardChange>((state, why) => onCardChange(state, why), [onCardChange]);
  if (id) {
    const descriptor = (part.approval as { descriptor?: ApprovalDescriptor } | undefined)?.descriptor;
    return <ApprovalCard id={id} title={plainTitle(part, descriptor)} headingLevel={2} onChange={changed} />;
  }
  return <ToolLine part={part} />;
}

/** "Post a message · Demo workspace" carries the workspace too, which the card names by itself. */
function plainTitle(part: ToolPart, descriptor?: ApprovalDescriptor): string | undefined {
  const title = descriptor?.title ?? part.title;
  return title?.split(" · ")[0];
}

/** A call that needed nobody's yes, or that was refused before anybody was asked. */
function ToolLine({ part }: { part: ToolPart }) {
  const metadata = part.toolMetadata as { workspace?: string } | undefined;
  const title = plainTitle(part) ?? humanise(part.toolName.replace(/^.*__/, ""));
  const where = metadata?.workspace ?? part.title?.split(" · ")[1];
  const output = part.state === "output-available" ? (part.output as Json) : null;
  const text = resultText(output);
  return (
    <details className="tool-line">
      <summary>
        <span>
          {title}
          {where && <span className="tool-where"> in {where}</span>}
        </span>
        <span className="tool-state">{toolState(part)}</span>
      </summary>
      <div className="tool-detail">
        {part.input !== undefined && (
          <>
            <p className="card-label">Asked with</p>
            <Values value={part.input as Json} label="The values" />
          </>
        )}
        {part.state === "output-available" && (
          <>
            <p className="card-label">Answer</p>
            {text === null ? <Values value={output} label="The answer" /> : <p className="result-text"><Exact text={text} /></p>}
          </>
        )}
        {part.state === "output-error" && <p className="field-error">{part.errorText}</p>}
      </div>
    </details>
  );
}

function toolState(part: ToolPart): string {
  switch (part.state) {
    case "output-available":
      return "Read";
    case "output-error":
      return "Did not work";
    case "output-denied":
      return "Not allowed";
    default:
      return "Working…";
  }
}
