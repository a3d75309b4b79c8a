// The wizard shows only the fields of the kind of site that is chosen. Without it all of them stand there.
"use strict";
(() => {
  const form = document.querySelector("[data-site-create]");
  if (!form) return;
  const update = () => {
    const kind = form.querySelector("input[name=kind]:checked")?.value;
    for (const part of form.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(kind);
  };
  form.addEventListener("change", update);
  update();
})();
