import AxeBuilder from "@axe-core/playwright";
import { type Browser, type BrowserContext, expect, type Locator, type Page } from "@playwright/test";

export const WIDTHS = [375, 414, 768, 1280];

/** A browser that was never here before, signed in as one of the demo people. */
export async function signIn(browser: Browser, person = "lakeside-admin"): Promise<{ context: BrowserContext; page: Page }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  await failOnPageErrors(page);
  await page.goto("/");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(`button[name="person"][value="${person}"]`).click();
  await expect(page.getByRole("button", { name: "Sign out" })).toBeVisible();
  if (person !== "operator") await expect(composer(page)).toBeVisible();
  return { context, page };
}

/** Script errors and refusals of the content security policy are failures of the page. */
async function failOnPageErrors(page: Page): Promise<void> {
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      throw new Error(`refused by the content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
    });
  });
  page.on("pageerror", (error) => {
    throw error;
  });
}

export function composer(page: Page): Locator {
  return page.getByRole("textbox", { name: "Message to Toshi" });
}

export async function say(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

/** Counts how many different texts the newest answer has had while it was written. */
export async function watchWriting(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(() => {
    const seen = new Set<string>();
    Object.assign(window, { seenTexts: seen });
    new MutationObserver(() => {
      const text = [...document.querySelectorAll(".message-assistant .prose")].at(-1)?.textContent;
      if (text) seen.add(text);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  return () => page.evaluate(() => (window as unknown as { seenTexts: Set<string> }).seenTexts.size);
}

/** The card that asks for something with this text. */
export function cardWith(page: Page, text: string): Locator {
  return page.locator(".card").filter({ has: page.locator(".values", { hasText: text }) });
}

/** Different words for every run: the same call twice is something else. */
export function fresh(text: string): string {
  return `${text} (${Date.now().toString(36)})`;
}

/** No finding of axe, in light and in dark. */
export async function accessible(page: Page): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(
      violations.map(({ id, nodes }) => ({ id, where: nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary ?? ""}`) })),
      `${page.url()} in ${colorScheme}`,
    ).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

/** Nothing is wider than the window, and a picture of it for people to look at. */
export async function fits(page: Page, name: string): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 860 });
    const wider = await page.evaluate(() =>
      [document.documentElement, ...document.querySelectorAll(".main, .thread-view, .page, .card")]
        .filter((element) => element.scrollWidth > element.clientWidth + 1)
        .map((element) => element.className || element.tagName),
    );
    expect(wider, `${name} at ${width} px`).toEqual([]);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: `test-results/${name}-${width}-${colorScheme}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 860 });
}

/** Makes the sandbox's stand-ins misbehave, or with null behave again. */
export async function setSwitches(page: Page, switches: Record<string, unknown>): Promise<void> {
  const answer = await page.request.put("/_sandbox/switches", { data: switches });
  expect(answer.ok(), await answer.text()).toBe(true);
}
