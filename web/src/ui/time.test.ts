import { afterEach, expect, it, vi } from "vitest";
import { clock, learnServerTime, remaining, serverNow } from "./time";

const now = Date.parse("2026-01-05T08:00:00Z");
const after = (seconds: number) => new Date(now + seconds * 1000).toISOString();

afterEach(() => {
  learnServerTime(new Date().toUTCString());
  vi.useRealTimers();
});

it("what is left is told in two units at most", () => {
  expect(remaining(after(86_400 * 2 + 3600), now).text).toBe("2 d 1 h");
  expect(remaining(after(86_399), now).text).toBe("23 h 59 min");
  expect(remaining(after(3600), now).text).toBe("1 h");
  expect(remaining(after(900), now).text).toBe("15 min");
  expect(remaining(after(65), now).text).toBe("1 min 5 s");
  expect(remaining(after(1), now)).toEqual({ over: false, text: "1 s" });
});

it("a passed, missing or malformed time counts as over", () => {
  expect(remaining(after(0), now).over).toBe(true);
  expect(remaining(null, now).over).toBe(true);
  expect(remaining("", now).over).toBe(true);
  expect(remaining("soon", now).over).toBe(true);
});

it("the countdown goes by the server's clock when this computer's is wrong", () => {
  vi.useFakeTimers({ now });
  learnServerTime(new Date(now + 600_000).toUTCString());
  expect(serverNow()).toBe(now + 600_000);
  learnServerTime(new Date(now + 1000).toUTCString());
  expect(serverNow()).toBe(now);
  learnServerTime("nonsense");
  expect(serverNow()).toBe(now);
});

it("a time that cannot be read is said to be unknown", () => {
  expect(clock(null)).toBe("an unknown time");
  expect(clock("x")).toBe("an unknown time");
});
