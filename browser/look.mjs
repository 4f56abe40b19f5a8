// Opens pages in a headless Chromium and writes what it saw as JSON:
//
//     node look.mjs CHROMIUM SCREENSHOTS URL...
//
// Each page, and each run that it links, is opened at a desk's and at a phone's width, light and dark. Where a run can be
// steered, its forms are used: a question is answered with its own words, up to the confirmation, and a pause is confirmed.
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

// Opens one page and those that lead on from it, and answers with the runs that it links.
async function look(context, address, width) {
  const page = await context.newPage();
  const [requests, problems] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // The browser asks for an icon by itself, outside the path that its cookie opens.
    if (!message.location().url.endsWith("/favicon.ico")) {
      problems.push(message.text());
    }
  });
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  const see = () => examine(page, width, requests, problems);
  // A live page keeps a request open, so it is never idle.
  await page.goto(address, { waitUntil: "load" });
  const { runs, steer } = await see();
  if (steer) {
    await page.goto(steer, { waitUntil: "load" });
    await see();
    await use(page, see);
  }
  await page.close();
  return runs;
}

async function use(page, see) {
  if (await page.locator("textarea").count()) {
    await page.fill("textarea", await page.innerText("blockquote"));
    await page.click("button[value=answer]");
    await see();
  } else if (await page.locator("button[value=pause]").count()) {
    await page.click("button[value=pause]");
    await see();
    await page.click("button[name=confirmed]");
    await see();
  }
}

// Unfolds a text of a live page and has the page fetched again: whether it is still unfolded, if there is one.
async function unfold(page) {
  return page.evaluate(async () => {
    const fold = () => document.querySelector("main details");
    if (!fold() || typeof renew !== "function") {
      return null;
    }
    fold().open = true;
    const main = () => document.querySelector("main");
    const parts = main().children.length;
    main().lastElementChild.remove();
    for (let waited = 0; waited < 5000 && main().children.length < parts; waited += 50) {
      renew();
      await new Promise((wake) => setTimeout(wake, 50));
    }
    return fold().open && main().children.length === parts;
  });
}

async function examine(page, width, requests, problems) {
  await page.waitForTimeout(300);
  const found = await page.evaluate(() => {
    const all = [...document.querySelectorAll("body *")];
    const own = /^(A|B|BLOCKQUOTE|BODY|BUTTON|CODE|DETAILS|DIV|EM|FIGCAPTION|FIGURE|FOOTER|FORM|H[1-4]|HEADER|I|INPUT|LABEL|LI|MAIN|NAV|OL|P|PRE|S|SECTION|SMALL|SPAN|STRONG|SUMMARY|TABLE|TBODY|TD|TEXTAREA|TH|THEAD|TR|UL|DL|DT|DD|SVG|G|PATH|RECT|TEXT|TITLE|LINE|POLYLINE|CIRCLE|POLYGON)$/;
    const isForeign = (one) =>
      !own.test(one.tagName.toUpperCase()) ||
      [...one.attributes].some(({ name }) => name === "style" || name.startsWith("on")) ||
      /^([a-z]+:|[/][/])/.test(one.getAttribute("href") ?? "");
    return {
      title: document.title,
      text: document.body.innerText,
      overflow: document.documentElement.scrollWidth - window.innerWidth,
      scripts: [...document.scripts].map((script) => script.src),
      foreign: all.filter(isForeign).map((one) => one.outerHTML.slice(0, 200)),
      // The tags with their classes, in their order: what texts must not change.
      structure: all.map((one) => one.tagName + "." + (one.getAttribute("class") ?? "")),
      runs: [...document.querySelectorAll("a[href^='run/']")].map((link) => link.href),
      steer: document.querySelector("a[href$='/steer']")?.href,
    };
  });
  found.unfolded = await unfold(page);
  await page.screenshot({ path: join(screenshots, `${seen.length}.png`), fullPage: true });
  seen.push({ address: page.url(), width, requests: [...requests], problems: [...problems], ...found });
  return found;
}
