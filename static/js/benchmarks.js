"use strict";
// Keeps a running benchmark's page current from its event stream; without EventSource the page offers a link.
(() => {
  const region = document.getElementById("run-live");
  if (!region || !region.dataset.events || !window.EventSource) return;
  const source = new EventSource(region.dataset.events);
  source.addEventListener("live", (event) => { region.innerHTML = event.data; });
  source.addEventListener("done", () => {
    source.close();
    window.setTimeout(() => window.location.reload(), 300); // the result is another page at the same address
  });
  window.addEventListener("pagehide", () => source.close());
})();
