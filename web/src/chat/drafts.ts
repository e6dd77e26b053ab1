/** What a person typed, kept for this tab until it is sent: across a sign-in and a reload. */

export interface Draft {
  text: string;
  /** The id it was sent with before that failed; sending it again must not count as a second message. */
  messageId?: string;
}

const key = (name: string) => `toshi.draft.${name}`;

export function readDraft(name: string): Draft {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key(name)) ?? "null") as Draft | null;
    return stored && typeof stored.text === "string" ? stored : { text: "" };
  } catch {
    return { text: "" };
  }
}

export function writeDraft(name: string, draft: Draft): void {
  if (draft.text) sessionStorage.setItem(key(name), JSON.stringify(draft));
  else sessionStorage.removeItem(key(name));
}
