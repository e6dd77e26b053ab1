import type { Json } from "../api/types";

/** What a tool answered: its text if it has one, otherwise the values themselves. */
export function resultText(result: Json): string | null {
  if (typeof result === "string") return result.trim() ? result : null;
  if (result === null || typeof result !== "object" || Array.isArray(result)) return null;
  if (typeof result.text === "string") return result.text;
  if (Array.isArray(result.content)) {
    const texts = result.content.flatMap((item) =>
      typeof item === "object" && item !== null && !Array.isArray(item) && typeof item.text === "string" ? [item.text] : [],
    );
    if (texts.length > 0) return texts.join("\n");
  }
  return null;
}
