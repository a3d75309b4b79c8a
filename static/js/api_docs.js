// The reference of the API has its own dark looks: worn when the reader's theme, or else their system, is dark.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = root.dataset.theme;
  const show = () => root.classList.toggle("dark-mode", chosen === "dark" || (chosen !== "light" && system.matches));
  system.addEventListener("change", show);
  show();
})();
