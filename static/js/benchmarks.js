"use strict";
// Keeps a running benchmark's page current from its event stream; without EventSource the page offers a link.
(() => {
  const region = document.getElementById("run-live");
  if (!region || !region.dataset.events || !window.EventSource) return;
  let reload = 0;
  const source = new EventSource(region.dataset.events);
  source.addEventListener("live", (event) => { region.innerHTML = event.data; });
  source.addEventListener("done", () => {
    source.close();
    reload = window.setTimeout(() => window.location.reload(), 300); // the result is another page at the same address
  });
  // Whoever is on the way to another page must not be brought back.
  window.addEventListener("beforeunload", () => window.clearTimeout(reload));
  window.addEventListener("pagehide", () => source.close());
})();
