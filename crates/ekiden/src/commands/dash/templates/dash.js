// Fetches the page again whenever its run changed, and puts what is new in its main part in place of the old.
"use strict";
const script = document.currentScript;
let busy = false, again = false;
async function renew() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [x, y] = [scrollX, scrollY];
      put(page.querySelector("main"));
      scrollTo(x, y);
    }
  } catch { /* The next change fetches it. */ }
  setTimeout(() => { busy = false; if (again) { again = false; renew(); } }, 500);
}
// What did not change stays, with what a person unfolded, selected or scrolled there.
function put(fresh) {
  const old = document.querySelector("main");
  const unfolded = new Map(folds(old));
  for (const [key, fold] of folds(fresh)) { fold.open = unfolded.get(key)?.open ?? false; }
  const [parts, before] = [[...fresh.children], [...old.children]];
  parts.forEach((part, at) => {
    if (!before[at]) { old.append(part); }
    else if (!part.isEqualNode(before[at])) { before[at].replaceWith(part); }
  });
  before.slice(parts.length).forEach((part) => part.remove());
}
// The texts that can be unfolded, each with the heading above it and its own.
function* folds(main) {
  let heading = "";
  for (const one of main.querySelectorAll("h3, summary")) {
    if (one.tagName === "H3") { heading = one.textContent; }
    else { yield [heading + one.textContent, one.parentElement]; }
  }
}
// A connection ends every minute and the next one follows; only a longer gap means that nobody is there.
const lost = document.createElement("p");
lost.className = "attention";
lost.hidden = true;
document.body.prepend(lost);
let events, gap;
// A page that nobody sees holds no connection: a browser has six for all pages of one server.
function listen() {
  events?.close();
  clearTimeout(gap);
  gap = undefined;
  if (document.hidden) { return; }
  events = new EventSource(script.dataset.events);
  events.addEventListener("changed", renew);
  events.addEventListener("open", () => {
    clearTimeout(gap);
    gap = undefined;
    lost.hidden = true;
    // What changed before somebody listened, or between two connections, no event told.
    renew();
  });
  events.addEventListener("error", () => {
    const at = new Date().toLocaleTimeString();
    gap ??= setTimeout(() => {
      lost.textContent = `Lost contact with ekiden dash: what follows is as of ${at}.`;
      lost.hidden = false;
    }, 15000);
  });
}
document.addEventListener("visibilitychange", listen);
listen();
