import { expect, it } from "vitest";
import { explain, Problem, problemFrom } from "./problem";

it("a decision that came too late tells what was decided and by whom", () => {
  const problem = new Problem(409, {
    code: "already_decided",
    decided: { decision: "reject", by: { id: "u", name: "Ana" }, at: "2026-01-05T08:00:00Z", state: "rejected" },
  });
  expect(explain(problem)).toMatch(/already rejected by Ana at .+ Your answer changed nothing\./);
});

it("expired, not yours and gone are told in words", () => {
  expect(explain(new Problem(410, { code: "expired" }))).toContain("time to answer is over");
  expect(explain(new Problem(403, { code: "not_yours" }))).toContain("somebody else");
  expect(explain(new Problem(404, { code: "not_found" }))).toContain("no longer exists");
});

it("a person never sees a raw body", async () => {
  const html = await problemFrom(new Response("<html>502</html>", { status: 502 }));
  expect(explain(html)).toBe("Toshi has a problem on its side. Try again in a moment.");
  const slow = await problemFrom(new Response("{}", { status: 429, headers: { "retry-after": "7" } }));
  expect(explain(slow)).toContain("7 seconds");
  expect(explain(new TypeError("Failed to fetch"))).toContain("can't be reached");
});
