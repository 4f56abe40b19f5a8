// Fetches the page again whenever its run changed, and puts what is new in its main part in place of the old.
"use strict";
const script = document.currentScript;
let busy = false, again = false;
async function renew() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(20000) });
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
// Each connection ends within a minute and the next one follows. Silence for longer than that means that nobody is there:
// a dead tunnel ends no connection.
const SILENCE_MAX = 75000, REFUSED_MAX = 15000;
const lost = document.createElement("p");
lost.className = "attention";
lost.hidden = true;
document.body.prepend(lost);
let events, timer, due, heard = new Date();
function expect(within) {
  due = Math.min(due, Date.now() + within);
  clearTimeout(timer);
  timer = setTimeout(() => {
    lost.textContent = `Lost contact with ekiden dash: what follows is as of ${heard.toLocaleTimeString()}.`;
    lost.hidden = false;
    listen();
  }, due - Date.now());
}
// A page that nobody sees holds no connection: a browser has six for all pages of one server.
function listen() {
  events?.close();
  clearTimeout(timer);
  due = Infinity;
  if (document.hidden) { return; }
  events = new EventSource(script.dataset.events);
  events.addEventListener("changed", () => { heard = new Date(); renew(); });
  events.addEventListener("open", () => {
    heard = new Date();
    due = Infinity;
    expect(SILENCE_MAX);
    lost.hidden = true;
    // What changed before somebody listened, or between two connections, no event told.
    renew();
  });
  events.addEventListener("error", () => expect(REFUSED_MAX));
  expect(SILENCE_MAX);
}
document.addEventListener("visibilitychange", listen);
listen();
