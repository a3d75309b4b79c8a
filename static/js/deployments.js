"use strict";
// Keeps a deployment's page current from its event stream; without EventSource the page offers a link to look again.
(() => {
  const region = document.getElementById("deployment-live");
  if (!region || !region.dataset.events || !window.EventSource) return;
  let reload = 0;
  const source = new EventSource(region.dataset.events);
  source.addEventListener("live", (event) => {
    const open = new Set([...region.querySelectorAll("details[open]")].map((item) => indexOf(item)));
    region.innerHTML = event.data;
    region.querySelectorAll("details").forEach((item) => { item.open = open.has(indexOf(item)); });
  });
  source.addEventListener("done", () => {
    source.close();
    // Badges, buttons and the rest of the batch stand outside the region.
    reload = window.setTimeout(() => window.location.reload(), 400);
  });
  // Whoever is on the way to another page must not be brought back.
  window.addEventListener("beforeunload", () => window.clearTimeout(reload));
  window.addEventListener("pagehide", () => source.close());

  function indexOf(details) {
    return [...region.querySelectorAll(".steps > li")].indexOf(details.closest("li"));
  }
})();
