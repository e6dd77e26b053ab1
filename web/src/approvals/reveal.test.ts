import { expect, it } from "vitest";
import { resultText } from "./result";
import { reveal } from "./reveal";

it("plain text, also with accents, emoji and line breaks, stays one piece", () => {
  expect(reveal("Zoë 👩‍🏫\nnext\tline")).toEqual([{ kind: "text", text: "Zoë 👩‍🏫\nnext\tline" }]);
});

it("characters that turn or hide text are spelt out", () => {
  expect(reveal("pay\u202egnp")).toEqual([
    { kind: "text", text: "pay" },
    { kind: "hidden", code: "U+202E" },
    { kind: "text", text: "gnp" },
  ]);
  expect(reveal("#gen\u200beral").map((piece) => piece.kind)).toEqual(["text", "hidden", "text"]);
  expect(reveal("\u{e0041}")).toEqual([{ kind: "hidden", code: "U+E0041" }]);
});

it("a tool's answer is its text when it has one", () => {
  expect(resultText({ text: "Posted" })).toBe("Posted");
  expect(resultText({ content: [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }] })).toBe("a\nb");
  expect(resultText({ ts: "1.2" })).toBeNull();
  expect(resultText(null)).toBeNull();
});
