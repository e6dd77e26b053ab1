/** Characters that show as nothing or turn the text around; an approver must see that they are there. */
const HIDDEN =
  // eslint-disable-next-line no-control-regex, no-misleading-character-class -- naming exactly these is the point
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

export type Piece = { kind: "text"; text: string } | { kind: "hidden"; code: string };

export function reveal(value: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of value.matchAll(HIDDEN)) {
    if (match.index > from) pieces.push({ kind: "text", text: value.slice(from, match.index) });
    const point = match[0].codePointAt(0) ?? 0;
    pieces.push({ kind: "hidden", code: `U+${point.toString(16).toUpperCase().padStart(4, "0")}` });
    from = match.index + match[0].length;
  }
  if (from < value.length) pieces.push({ kind: "text", text: value.slice(from) });
  return pieces;
}
