// Opens a page of `ekiden dash` beside others, ends the dash, and writes what the page then says above the rest:
//
//     node lost.mjs CHROMIUM URL PID
import { chromium } from "playwright-core";

const [executablePath, address, pid] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const context = await browser.newContext();
// As many pages as a browser has connections to one server, which nobody sees.
for (let others = 0; others < 6; others += 1) {
  const other = await context.newPage();
  await other.goto(address, { waitUntil: "load" });
  await other.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
}
const page = await context.newPage();
await page.goto(address, { waitUntil: "load" });
await page.waitForTimeout(500);
await page.clock.install();
process.kill(Number(pid));
await page.waitForTimeout(1500);
const before = await page.locator("body > p").isVisible();
await page.clock.fastForward(20000);
console.log(before, await page.innerText("body > p"));
await browser.close();
