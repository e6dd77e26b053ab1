import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { readDraft, writeDraft } from "./drafts";

const MAX_BYTES = 32 * 1024;

/** The input. What is typed stays in this tab until it has been sent. */
export function Composer(props: {
  draftKey: string;
  /** Changes when text was put back from outside. */
  restored: number;
  busy: boolean;
  onSend: (text: string) => void;
  focusFirst: boolean;
}) {
  const { draftKey, restored, busy, onSend, focusFirst } = props;
  const [text, setText] = useState(() => readDraft(draftKey).text);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const hintId = useId();
  const tooLong = new TextEncoder().encode(text).length > MAX_BYTES;

  useEffect(() => {
    if (restored > 0) setText(readDraft(draftKey).text);
  }, [restored, draftKey]);

  useEffect(() => {
    if (focusFirst) field.current?.focus();
  }, [focusFirst]);

  useEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 220)}px`;
  }, [text]);

  const send = () => {
    const message = text.trim();
    if (!message || busy || tooLong) return;
    setText("");
    onSend(message);
    field.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label className="visually-hidden" htmlFor={id}>
        Message to Toshi
      </label>
      <textarea
        id={id}
        ref={field}
        rows={1}
        placeholder="Write to Toshi"
        value={text}
        aria-describedby={hintId}
        aria-invalid={tooLong}
        onKeyDown={onKeyDown}
        onChange={(event) => {
          const kept = readDraft(draftKey);
          setText(event.target.value);
          writeDraft(draftKey, { ...kept, text: event.target.value });
        }}
      />
      <button type="submit" className="button button-primary" disabled={busy || !text.trim() || tooLong}>
        Send
      </button>
      <p id={hintId} className={tooLong ? "field-error" : "composer-hint"}>
        {tooLong
          ? "This message is too long. Shorten it to send it."
          : busy
            ? "Toshi is answering. You can already write your next message."
            : "Enter sends, Shift + Enter starts a new line."}
      </p>
    </form>
  );
}
