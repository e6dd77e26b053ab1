import { expect, it } from "vitest";
import { base64url, challengeOf, claimsOf, randomToken } from "./pkce";

it("the challenge is the one of RFC 7636, appendix B", async () => {
  expect(await challengeOf("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")).toBe("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
});

it("a verifier is long enough, has only allowed characters and never repeats", () => {
  const seen = new Set(Array.from({ length: 50 }, () => randomToken(48)));
  expect(seen.size).toBe(50);
  for (const verifier of seen) expect(verifier).toMatch(/^[A-Za-z0-9_-]{64}$/);
});

it("claims are read as UTF-8", () => {
  const payload = base64url(new TextEncoder().encode(JSON.stringify({ name: "Zoë", nonce: "n" })));
  expect(claimsOf(`e30.${payload}.x`)).toEqual({ name: "Zoë", nonce: "n" });
  expect(() => claimsOf("nonsense")).toThrow();
});
