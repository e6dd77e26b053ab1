import { expect, test } from "@playwright/test";
import { accessible, cardWith, composer, fits, fresh, say, setSwitches, signIn, watchWriting } from "./help";

test("a post is asked for, the browser is closed, it is approved later and done once", async ({ browser }) => {
  const text = fresh("Sports day moved to Friday");
  const first = await signIn(browser);
  await say(first.page, `Post "${text}" to #general`);

  // The input stays usable while the answer is written.
  await expect(first.page.locator(".message-assistant").last()).toBeVisible();
  await expect(composer(first.page)).toBeEnabled();
  const asked = cardWith(first.page, text);
  await expect(asked).toHaveAttribute("data-state", "pending");
  await expect(asked.locator(".field")).toHaveCount(2);
  await expect(asked.locator(".field").filter({ hasText: "Channel" }).locator("dd")).toHaveText(/^#?general$/);
  await expect(asked.locator(".field").filter({ hasText: "Text" }).locator("dd")).toHaveText(text);
  await expect(asked.locator(".card-where")).toContainText("Demo workspace");
  await expect(asked.getByRole("timer")).toContainText("left to answer");
  await asked.getByRole("button", { name: "Show as JSON" }).click();
  await expect(asked.locator(".raw")).toContainText(JSON.stringify(text));
  await accessible(first.page);
  await fits(first.page, "chat-card");
  const address = new URL(first.page.url()).pathname;
  await first.context.close();

  const { page, context } = await signIn(browser);
  await page.getByRole("navigation", { name: "Conversations" }).locator(`a[href="${address}"]`).click();
  const card = cardWith(page, text);
  await expect(card).toHaveAttribute("data-state", "pending");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(card).toHaveAttribute("data-state", "succeeded", { timeout: 90_000 });
  await expect(card.locator(".state-sentence")).toContainText("Approved by you");
  await expect(card.getByText("Answer from Demo workspace")).toBeVisible();
  await expect(card.getByRole("button", { name: "Approve" })).toHaveCount(0);

  // Toshi goes on below the card, in the same message, without a reload by hand.
  const answer = page.locator(".message-assistant", { has: card });
  await expect(answer.locator(".card ~ .prose")).toBeVisible({ timeout: 60_000 });

  await page.reload();
  await expect(cardWith(page, text)).toHaveAttribute("data-state", "succeeded");
  await cardWith(page, text).getByRole("link", { name: "What happened, step by step" }).click();
  await expect(page.getByRole("heading", { name: "What happened" })).toBeVisible();
  for (const event of ["requested", "decided", "claimed", "settled"]) {
    await expect(page.locator(`.event-${event}`), event).not.toHaveCount(0);
  }
  await expect(page.locator(".event-settled")).toHaveCount(1);
  await expect(page.locator(".event-decided")).toContainText("approved it");
  await page.getByRole("button", { name: "Verify the records" }).click();
  await expect(page.locator(".notice-good")).toContainText("Nothing was changed");
  await accessible(page);
  await fits(page, "timeline");
  await context.close();
});

test("a rejection with a reason is kept, told to Toshi, and nothing is done", async ({ browser }) => {
  const text = fresh("School closes early");
  const reason = "Wrong date, it is Thursday";
  const { page, context } = await signIn(browser);
  await say(page, `Post "${text}" to #staff`);
  const card = cardWith(page, text);
  await card.getByRole("button", { name: "Reject…" }).click();
  await expect(card.getByRole("textbox")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(card.getByRole("textbox")).toHaveCount(0);
  await expect(card.getByRole("button", { name: "Reject…" })).toBeFocused();
  await page.keyboard.press("Enter");
  await card.getByRole("textbox").fill(reason);
  await card.getByRole("button", { name: "Reject", exact: true }).click();
  await expect(card).toHaveAttribute("data-state", "rejected");
  await expect(card.getByRole("heading")).toBeFocused();
  await expect(card.locator(".card-state")).toContainText("Nothing was done");
  await expect(card.locator(".card-state")).toContainText(reason);
  const answer = page.locator(".message-assistant", { has: card });
  await expect(answer.locator(".card ~ .prose")).toBeVisible({ timeout: 90_000 });

  await page.getByRole("link", { name: "Approvals" }).click();
  await page.locator(".recent-row", { hasText: text }).locator("summary").click();
  await expect(cardWith(page, text).locator(".card-state")).toContainText(reason);
  await accessible(page);
  await fits(page, "approvals");

  await page.getByRole("link", { name: "Audit" }).click();
  await expect(page.locator(".event-decided").first()).toContainText("rejected it");
  await accessible(page);
  await fits(page, "audit");
  await context.close();
});

test("a new message can be sent while a request waits, and the request can still be answered", async ({ browser }) => {
  const text = fresh("Lab opens at nine");
  const { page, context } = await signIn(browser);
  await say(page, `Post "${text}" to #science`);
  const card = cardWith(page, text);
  await expect(card).toHaveAttribute("data-state", "pending");
  const texts = await watchWriting(page);
  // Slow enough that even a busy browser draws between two words.
  await setSwitches(page, { "llm.delay_ms": 400 });
  await say(page, "what channels are there");
  await expect(page.locator(".message-user")).toHaveCount(2);
  await expect(page.locator(".message-assistant")).toHaveCount(2);
  await expect(page.locator(".message-assistant").last().locator(".prose").last()).toContainText("#science");
  // Its first words were on the page before its last.
  expect(await texts()).toBeGreaterThan(1);
  await setSwitches(page, { "llm.delay_ms": null });
  await expect(card).toHaveAttribute("data-state", "pending");

  await card.getByRole("button", { name: "Approve" }).click();
  await expect(card).toHaveAttribute("data-state", "succeeded", { timeout: 90_000 });
  // What follows is a new message at the end.
  await expect(page.locator(".message-assistant")).toHaveCount(3, { timeout: 90_000 });
  await context.close();
});

test("text that was typed survives the end of a sign-in", async ({ browser }) => {
  const { page, context } = await signIn(browser);
  const text = "A message that could not be sent";
  await page.route("**/_sandbox/oidc/token", (route) => route.fulfill({ status: 400, json: { error: "invalid_grant" } }));
  await page.route("**/v1/**", (route) =>
    route.fulfill({
      status: 401,
      contentType: "application/problem+json",
      json: { type: "about:blank", title: "Unauthorized", status: 401, detail: "The token has expired.", code: "token_expired" },
    }),
  );
  await say(page, text);
  const dialog = page.getByRole("dialog", { name: "Your sign-in has ended" });
  await expect(dialog).toBeVisible();
  await page.unrouteAll();
  await dialog.getByRole("button", { name: "Sign in again" }).click();
  await page.locator('button[name="person"][value="lakeside-admin"]').click();
  await expect(composer(page)).toHaveValue(text);
  await expect(page.locator(".message")).toHaveCount(0);
  await context.close();
});

test("the operator of the platform is told that there is nothing here, and nothing fails", async ({ browser }) => {
  const { page, context } = await signIn(browser, "operator");
  const refused: string[] = [];
  page.on("response", (response) => {
    if (response.status() >= 400) refused.push(`${response.status()} ${response.url()}`);
  });
  for (const path of ["/chat", "/approvals", "/audit"]) {
    await page.goto(path);
    await expect(page.getByRole("main")).toContainText("signed in as the platform's operator");
    await expect(page.getByRole("navigation")).toHaveCount(0);
  }
  await page.waitForLoadState("networkidle");
  expect(refused).toEqual([]);
  await accessible(page);
  await context.close();
});

test("an answer that comes too late stays told in the list until it is dismissed", async ({ browser }) => {
  const text = fresh("Library closed on Monday");
  const { page, context } = await signIn(browser);
  await say(page, `Post "${text}" to #general`);
  await expect(cardWith(page, text)).toHaveAttribute("data-state", "pending");
  await page.getByRole("link", { name: "Approvals" }).click();
  const card = cardWith(page, text);
  // Another answer is stored just before this one arrives.
  await page.route("**/decision", async (route) => {
    await route.fetch({ postData: JSON.stringify({ decision: "reject" }) });
    await route.continue();
  });
  await card.getByRole("button", { name: "Approve" }).click();
  const notice = card.getByRole("alert");
  await expect(notice).toContainText("already rejected by");
  await expect(card).toHaveAttribute("data-state", "rejected");
  await expect(card.getByRole("button", { name: "Approve" })).toHaveCount(0);
  // The list has been read again since, without this request.
  await page.waitForResponse((response) => response.url().includes("state=pending"));
  await expect(notice).toBeVisible();
  await notice.getByRole("button", { name: "Dismiss this notice" }).click();
  await expect(notice).toHaveCount(0);
  await context.close();
});

test("only those who may post are given a post as an example", async ({ browser }) => {
  for (const [person, example, tools] of [
    ["lakeside-admin", "Post", true],
    ["lakeside-deputy", "Ask me a question", true],
    ["lakeside-parent", "Ask me a question", false],
  ] as const) {
    const { page, context } = await signIn(browser, person);
    await expect(page.locator(".welcome-example")).toContainText(example);
    await expect(page.getByText("No tool of your school is open to your role yet.")).toHaveCount(tools ? 0 : 1);
    await context.close();
  }
});
