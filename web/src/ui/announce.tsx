import { useSyncExternalStore } from "react";

let message = "";
const listeners = new Set<() => void>();

/** Says something to people who use a screen reader. */
export function announce(text: string): void {
  // The same words twice are only read again when the text differs.
  message = message === text ? `${text}\u00a0` : text;
  for (const listener of listeners) listener();
}

export function Announcer() {
  const text = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => message,
  );
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}
