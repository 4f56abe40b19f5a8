// Opens pages in a headless Chromium and writes what it saw as JSON:
//
//     node look.mjs CHROMIUM SCREENSHOTS URL...
//
// Each page, and each run that it links, is opened at a desk's and at a phone's width, light and dark.
import { chromium } from "playwright-core";
import { join } from "node:path";

const [executablePath, screenshots, ...addresses] = process.argv.slice(2);
const looks = [
  { width: 1280, height: 900, colorScheme: "light" },
  { width: 390, height: 800, colorScheme: "dark" },
];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const seen = [];
for (const { width, height, colorScheme } of looks) {
  for (const address of addresses) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const links = await look(context, address, width);
    for (const link of links) {
      await look(context, link, width);
    }
    await context.close();
  }
}
await browser.close();
console.log(JSON.stringify(seen));

// Opens one page, and answers with the runs that it links.
async function look(context, address, width) {
  const page = await context.newPage();
  const [requests, trouble] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("console", (message) => {
    // The browser asks for an icon by itself, outside the path that its cookie opens.
    if (!message.location().url.endsWith("/favicon.ico")) {
      trouble.push(message.text());
    }
  });
  page.on("dialog", (dialog) => {
    trouble.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  // A live page keeps a request open, so it is never idle.
  await page.goto(address, { waitUntil: "load" });
  await page.waitForTimeout(300);
  const found = await page.evaluate(() => ({
    title: document.title,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    scripts: [...document.scripts].map((script) => script.src),
    // The tags with their classes, in their order: what texts must not change.
    structure: [...document.querySelectorAll("body *")].map((one) => one.tagName + "." + (one.getAttribute("class") ?? "")),
    runs: [...document.querySelectorAll("a[href^='run/']")].map((link) => link.href),
  }));
  await page.screenshot({ path: join(screenshots, `${seen.length}.png`), fullPage: true });
  seen.push({ address: page.url(), width, requests, trouble, ...found });
  await page.close();
  return found.runs;
}
