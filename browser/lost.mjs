// Opens a page of `ekiden dash` beside others, suspends or ends the dash, and writes what the page then says above the rest:
//
//     node lost.mjs CHROMIUM URL PID SIGNAL
import { chromium } from "playwright-core";

const [executablePath, address, pid, signal] = process.argv.slice(2);
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
await page.clock.install();
await page.goto(address, { waitUntil: "load" });
await page.waitForTimeout(500);
process.kill(Number(pid), signal);
await page.waitForTimeout(1500);
// Who hears nothing knows it only after a minute; a refused connection tells it sooner.
await page.clock.fastForward(signal === "SIGSTOP" ? 60000 : 10000);
const before = await page.locator("body > p").isVisible();
await page.clock.fastForward(20000);
console.log(before, await page.innerText("body > p"));
await browser.close();
