import { useState } from "react";
import type { Json } from "../api/types";
import { reveal } from "../approvals/reveal";
import { humanise } from "../approvals/states";

/** The full text, with characters that would not be seen spelt out. */
export function Exact({ text }: { text: string }) {
  if (text === "") return <span className="value-none">(empty text)</span>;
  return (
    <span className="value-text">
      {reveal(text).map((piece, index) =>
        piece.kind === "text" ? (
          <bdi key={index}>{piece.text}</bdi>
        ) : (
          <span key={index} className="hidden-char" title="A character that is not visible">
            {piece.code}
          </span>
        ),
      )}
    </span>
  );
}

function Value({ value }: { value: Json }) {
  if (value === null) return <span className="value-none">(nothing)</span>;
  if (typeof value === "string") return <Exact text={value} />;
  if (typeof value === "boolean") return <span>{value ? "Yes" : "No"}</span>;
  if (typeof value === "number") return <span>{String(value)}</span>;
  if (Array.isArray(value)) {
    if (value.length === 0) return <span className="value-none">(empty list)</span>;
    return (
      <ol className="value-list">
        {value.map((item, index) => (
          <li key={index}>
            <Value value={item} />
          </li>
        ))}
      </ol>
    );
  }
  return <Fields fields={value} />;
}

export function Fields({ fields }: { fields: { [key: string]: Json } }) {
  const entries = Object.entries(fields);
  if (entries.length === 0) return <p className="value-none">(no values)</p>;
  return (
    <dl className="fields">
      {entries.map(([key, value]) => (
        <div className="field" key={key}>
          <dt title={key}>{humanise(key)}</dt>
          <dd>
            <Value value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Values as a readable form; the exact JSON behind a toggle. */
export function Values(props: { value: Json; label: string }) {
  const [raw, setRaw] = useState(false);
  const { value, label } = props;
  return (
    <div className="values">
      {raw ? (
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, so the keyboard must reach it
        <pre className="raw" tabIndex={0} role="region" aria-label={`${label} as JSON`}>
          {JSON.stringify(value, null, 2)}
        </pre>
      ) : typeof value === "object" && value !== null && !Array.isArray(value) ? (
        <Fields fields={value} />
      ) : (
        <Value value={value} />
      )}
      <button type="button" className="button-link" aria-pressed={raw} onClick={() => setRaw(!raw)}>
        {raw ? "Show as a form" : "Show as JSON"}
      </button>
    </div>
  );
}
