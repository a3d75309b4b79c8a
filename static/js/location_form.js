// The location's form shows only the parts of the handler that is chosen. Without it all of them stand there.
"use strict";
(() => {
  const form = document.querySelector("[data-location]");
  if (!form) return;
  const handler = form.querySelector("[name=handler]");
  const update = () => {
    for (const part of form.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(handler.value);
  };
  handler.addEventListener("change", update);
  update();
})();
