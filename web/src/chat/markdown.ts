/** A small, safe subset of Markdown as data. Raw HTML and images stay text. */

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "strong"; text: string }
  | { kind: "code"; text: string }
  | { kind: "link"; text: string; url: string; host: string };

export type Block =
  | { kind: "paragraph"; lines: Inline[][] }
  | { kind: "heading"; content: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "list"; ordered: boolean; start: number; items: Inline[][] };

const BULLET = /^\s{0,3}[-*•]\s+(.*)$/;
const NUMBER = /^\s{0,3}(\d{1,6})[.)]\s+(.*)$/;
const HEADING = /^#{1,4}\s+(.*)$/;
const FENCE = /^\s{0,3}```/;
const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<!!)\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]*[^\s<>"')\].,;:!?…])/g;

export function parse(source: string): Block[] {
  const lines = source.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let index = 0;
  while (index < lines.length) {
    const line = lines[index] ?? "";
    if (!line.trim()) {
      index++;
    } else if (FENCE.test(line)) {
      const end = lines.findIndex((candidate, at) => at > index && FENCE.test(candidate));
      const stop = end === -1 ? lines.length : end;
      blocks.push({ kind: "code", text: lines.slice(index + 1, stop).join("\n") });
      index = stop + 1;
    } else if (HEADING.test(line)) {
      blocks.push({ kind: "heading", content: inline(HEADING.exec(line)?.[1] ?? "") });
      index++;
    } else if (BULLET.test(line) || NUMBER.test(line)) {
      const ordered = !BULLET.test(line);
      const pattern = ordered ? NUMBER : BULLET;
      const start = ordered ? Number(NUMBER.exec(line)?.[1] ?? 1) : 1;
      const items: Inline[][] = [];
      for (; index < lines.length; index++) {
        const match = pattern.exec(lines[index] ?? "");
        if (!match) break;
        items.push(inline(match[ordered ? 2 : 1] ?? ""));
      }
      blocks.push({ kind: "list", ordered, start, items });
    } else {
      const paragraph: Inline[][] = [];
      for (; index < lines.length; index++) {
        const next = lines[index] ?? "";
        if (!next.trim() || FENCE.test(next) || HEADING.test(next) || BULLET.test(next) || NUMBER.test(next)) break;
        paragraph.push(inline(next));
      }
      blocks.push({ kind: "paragraph", lines: paragraph });
    }
  }
  return blocks;
}

export function inline(text: string): Inline[] {
  const pieces: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const piece = pieceOf(match);
    if (!piece) continue;
    if (match.index > from) pieces.push({ kind: "text", text: text.slice(from, match.index) });
    pieces.push(piece);
    from = match.index + match[0].length;
  }
  if (from < text.length) pieces.push({ kind: "text", text: text.slice(from) });
  return pieces;
}

function pieceOf(match: RegExpExecArray): Inline | null {
  const [, code, strong, label, target, bare] = match;
  if (code !== undefined) return { kind: "code", text: code };
  if (strong !== undefined) return { kind: "strong", text: strong };
  const url = safeUrl(target ?? bare ?? "");
  return url ? { kind: "link", text: label ?? bare ?? url.href, url: url.href, host: url.host } : null;
}

function safeUrl(text: string): URL | null {
  try {
    const url = new URL(text);
    return (url.protocol === "https:" || url.protocol === "http:") && !url.username && !url.password ? url : null;
  } catch {
    return null;
  }
}
