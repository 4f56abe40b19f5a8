// Opens a page of `ekiden dash`, ends the dash, and writes what the page then says above the rest:
//
//     node lost.mjs CHROMIUM URL PID
import { chromium } from "playwright-core";

const [executablePath, address, pid] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.goto(address, { waitUntil: "load" });
await page.waitForTimeout(500);
await page.clock.install();
process.kill(Number(pid));
await page.waitForTimeout(1500);
const before = await page.locator("body > p").isVisible();
await page.clock.fastForward(20000);
console.log(before, await page.innerText("body > p"));
await browser.close();
