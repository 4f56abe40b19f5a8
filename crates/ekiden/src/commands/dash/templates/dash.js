// Fetches the page again whenever its run changed, and puts its main part in place of the old one.
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
      document.querySelector("main").replaceWith(page.querySelector("main"));
      scrollTo(x, y);
    }
  } catch { /* The next change fetches it. */ }
  setTimeout(() => { busy = false; if (again) { again = false; renew(); } }, 500);
}
const events = new EventSource(script.dataset.events);
events.addEventListener("changed", renew);
// What changed before somebody listened, or between two connections, no event told.
events.addEventListener("open", renew);
