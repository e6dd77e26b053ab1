import { expect, it } from "vitest";
import { inline, parse } from "./markdown";

it("raw HTML and images stay text", () => {
  expect(inline("<img src=x onerror=alert(1)>")).toEqual([{ kind: "text", text: "<img src=x onerror=alert(1)>" }]);
  const image = inline("![pixel](https://evil.example/p.png)");
  expect(image.some((piece) => piece.kind === "link" && piece.text === "pixel")).toBe(false);
});

it("a link tells its host, and only web addresses become links", () => {
  expect(inline("see [our site](https://bank.example/login)")).toEqual([
    { kind: "text", text: "see " },
    { kind: "link", text: "our site", url: "https://bank.example/login", host: "bank.example" },
  ]);
  expect(inline("[x](javascript:alert(1))").every((piece) => piece.kind === "text")).toBe(true);
  expect(inline("https://real.example@evil.example/").every((piece) => piece.kind === "text")).toBe(true);
});

it("the end of a sentence is no part of a bare address", () => {
  expect(inline("See https://school.example/a.b?c=1. Or")).toEqual([
    { kind: "text", text: "See " },
    { kind: "link", text: "https://school.example/a.b?c=1", url: "https://school.example/a.b?c=1", host: "school.example" },
    { kind: "text", text: ". Or" },
  ]);
  expect(inline("https://school.example!?").map((piece) => piece.text)).toEqual(["https://school.example", "!?"]);
});

it("paragraphs, lists, headings and code are told apart", () => {
  const blocks = parse("# Title\none\ntwo\n\n- a\n- **b**\n\n2. x\n3. y\n\n```\n<b>\n```");
  expect(blocks.map((block) => block.kind)).toEqual(["heading", "paragraph", "list", "list", "code"]);
  expect(blocks[3]).toMatchObject({ ordered: true, start: 2 });
  expect(blocks[4]).toEqual({ kind: "code", text: "<b>" });
});

it("text that is still being streamed is never lost", () => {
  expect(parse("```\nhalf")).toEqual([{ kind: "code", text: "half" }]);
  expect(inline("**half")).toEqual([{ kind: "text", text: "**half" }]);
});
