"use strict";
// Keeps the region of a page that work goes on in current from its event stream; without EventSource the page offers a
// link to look again.
(() => {
  const region = document.querySelector("[data-events]");
  if (!region || !window.EventSource) return;
  let reload = 0;
  const source = new EventSource(region.dataset.events);
  source.addEventListener("live", (event) => {
    const open = new Set([...region.querySelectorAll("details[open]")].map(placeOf));
    region.innerHTML = event.data;
    region.querySelectorAll("details").forEach((item) => { item.open = item.open || open.has(placeOf(item)); });
  });
  source.addEventListener("done", () => {
    source.close();
    // What stands outside the region (badges, buttons) and the result belong to another form of the page.
    reload = window.setTimeout(() => window.location.reload(), 400);
  });
  // Whoever is on the way to another page must not be brought back.
  window.addEventListener("beforeunload", () => window.clearTimeout(reload));
  window.addEventListener("pagehide", () => source.close());

  // Steps are appended, and may get words of their own later: the step is what stays.
  function placeOf(details) {
    const step = details.closest("li");
    const all = step ? region.querySelectorAll("li") : region.querySelectorAll("details");
    return (step ? "li " : "details ") + [...all].indexOf(step || details);
  }
})();
