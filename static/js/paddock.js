// Shared manners of every page: search palette, dialogs, keys, messages, unsaved changes. Pages work without it.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const texts = () => $("#texts").dataset;
  const KEYS_OFF = "paddock-keys-off";

  // --- messages ---
  function say(message, tone = "bad") {
    const toast = $("#toast-template").content.cloneNode(true);
    $(".message", toast).classList.replace("tone-bad", `tone-${tone}`);
    $("p", toast).textContent = message;
    $("#messages").append(toast);
    $("#messages").scrollIntoView({ block: "nearest" });
  }

  // --- dialogs: a link with hx-target="#dialog-body" opens its page's part here; without scripts it is a page ---
  function openSearch() {
    const dialog = $("#search-dialog");
    if (!dialog) return false;
    if (!dialog.open) dialog.showModal();
    $("#palette-input").focus();
    $("#palette-input").select();
    return true;
  }

  document.addEventListener("click", (event) => {
    const on = (selector) => event.target.closest(selector);
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (on("[data-search-open]")) {
      if (openSearch()) event.preventDefault();
    } else if (on("[data-dialog-close]")) {
      const dialog = on("dialog");
      if (dialog) {
        event.preventDefault();
        dialog.close();
      }
    } else if (on("[data-dismiss]")) {
      on(".message").remove();
    } else if (on("[data-menu-toggle]")) {
      const button = on("[data-menu-toggle]");
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      $("#shell-menu").classList.toggle("is-open", open);
    } else if (event.target instanceof HTMLDialogElement) {
      const box = event.target.getBoundingClientRect();
      const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) event.target.close();
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = (button.dataset.copy || $(button.dataset.copyFrom).textContent).trim();
    // Over plain HTTP browsers offer no clipboard, and they may deny it: the text is selected, to be copied by hand.
    const isCopied = navigator.clipboard && await navigator.clipboard.writeText(text).then(() => true, () => false);
    if (!isCopied) {
      window.getSelection().selectAllChildren($(button.dataset.copyFrom || "[data-copy]"));
      return;
    }
    const label = $("span", button) || button;
    const before = label.textContent;
    label.textContent = button.dataset.copied;
    setTimeout(() => { label.textContent = before; }, 1500);
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "dialog-body") {
      const dialog = $("#dialog");
      const title = $("h2", dialog);
      dialog.setAttribute("aria-label", title ? title.textContent : "");
      if (!dialog.open) dialog.showModal();
      showKeysChoice();
      guardConfirm(dialog);
      const first = $("#dialog-body input:not([type=hidden]), #dialog-body textarea, #dialog-body select");
      if (first) first.focus();
    }
  });

  // A field whose messages were just fetched is marked for screen readers too.
  document.addEventListener("htmx:afterRequest", (event) => {
    const control = event.detail.elt;
    if (!control.matches || !control.matches("[hx-post][aria-describedby]") || !event.detail.successful) return;
    const wrong = control.getAttribute("aria-describedby").split(" ").some((id) => {
      const part = document.getElementById(id);
      return part && part.classList.contains("field-error") && part.textContent.trim();
    });
    if (wrong) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  });

  // --- a confirm button waits for the name; the server checks it again ---
  function guardConfirm(root) {
    for (const input of root.querySelectorAll("[data-confirm-name]")) {
      const button = $("[data-confirm-submit]", input.form);
      const update = () => { button.disabled = input.value.trim() !== input.dataset.confirmName; };
      input.addEventListener("input", update);
      update();
    }
  }

  // --- failures of the panel itself ---
  document.addEventListener("htmx:sendError", () => say(texts().unreachable));
  document.addEventListener("htmx:responseError", (event) => {
    const answer = event.detail.xhr;
    say(`${texts().refused} ${answer.status} ${answer.statusText}`);
  });
  let ended = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const login = document.body.dataset.loginPath;
    const answer = event.detail.xhr.responseURL;
    if (login && answer && new URL(answer).pathname === login && location.pathname !== login) {
      event.detail.shouldSwap = false; // the session ended: the page itself leads to the login
      if (event.detail.xhr.status === 204) { // asked by a form that is being filled in: what was written stays
        if (!ended) say(texts().ended, "warn");
        ended = true;
        return;
      }
      leaving = true;
      location.reload();
    }
  });

  // --- a live region is left alone while nothing but the clock moved: focus and selection stay ---
  const shown = new WeakMap();
  const essence = (html) => html.replace(/<time[^]*?<\/time>/g, "").replace(/csrfmiddlewaretoken" value="[^"]*"/g, "");
  document.addEventListener("htmx:beforeSwap", (event) => {
    const region = event.detail.target;
    if (!region.matches || !region.matches("[data-live]")) return;
    const now = essence(event.detail.serverResponse);
    if (shown.get(region) === now) event.detail.shouldSwap = false;
    else requestAnimationFrame(() => { const next = document.getElementById(region.id); if (next) shown.set(next, now); });
  });

  // --- the saved views beside a list follow it; while the list stays the same, a name that is being typed stays too ---
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    const query = (root) => $("[name=query]", root)?.value;
    if (target.id === "views" && query(target) !== undefined && query(target) === query(fragment)) event.detail.shouldSwap = false;
  });

  document.addEventListener("toggle", (event) => {
    if (event.target.matches(".views-save[open]")) $("[name=name]", event.target).focus();
  }, true);

  // --- unsaved changes: <form data-guard> ---
  let leaving = false;
  const snapshot = (form) => new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, value instanceof File ? value.name : value])).toString();
  const guarded = new Map();
  function guardForms() {
    for (const form of document.querySelectorAll("form[data-guard]")) {
      if (!guarded.has(form)) guarded.set(form, snapshot(form));
    }
  }
  const isDirty = (form) => form.isConnected && guarded.get(form) !== snapshot(form);
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form || !guarded.has(form)) return;
    const mark = $("[data-unsaved]", form);
    if (mark) mark.hidden = !isDirty(form);
  });
  document.addEventListener("submit", (event) => { if (event.target.method !== "dialog") leaving = !event.defaultPrevented; });
  window.addEventListener("beforeunload", (event) => {
    if (!leaving && [...guarded.keys()].some(isDirty)) event.preventDefault();
  });

  // --- a form that led to signing in, or to the question for the password, is filled in again on the way back; secrets are not kept ---
  const SENT = "paddock-sent";
  const here = () => location.pathname + location.search;
  const isDoor = (path) => path === document.body.dataset.confirmPath || path.startsWith(document.body.dataset.loginPath);
  const isKept = (control) => control.name && !["password", "file", "hidden", "submit", "button"].includes(control.type) && !control.matches("[data-secret]");
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || !form.closest("main") || isDoor(location.pathname)) return;
    const values = [...form.elements].filter(isKept).map((control) => [control.name, control.value, control.checked === true]);
    sessionStorage.setItem(SENT, JSON.stringify({ page: here(), action: form.getAttribute("action"), values }));
  });
  function refill() {
    if (isDoor(location.pathname)) return; // its way on leads back
    const sent = JSON.parse(sessionStorage.getItem(SENT) || "null");
    sessionStorage.removeItem(SENT);
    const from = document.referrer && new URL(document.referrer);
    if (!sent || sent.page !== here() || !from || from.origin !== location.origin || !isDoor(from.pathname)) return;
    const forms = [...document.querySelectorAll("main form[method=post]")].filter((form) => form.getAttribute("action") === sent.action);
    const ofPage = forms.flatMap((form) => [...form.elements]).filter(isKept);
    let changed = false;
    for (const [name, value, isChecked] of sent.values) {
      const isBox = (control) => control.type === "checkbox" || control.type === "radio";
      const control = ofPage.find((item) => item.name === name && (!isBox(item) || item.value === value));
      if (!control) continue;
      changed ||= isBox(control) ? control.checked !== isChecked : control.value !== value;
      if (isBox(control)) control.checked = isChecked; else control.value = value;
    }
    if (changed) say(texts().kept, "warn");
  }

  // --- keys: single letters can be switched off in the help dialog (WCAG 2.1.4) ---
  const areKeysOn = () => localStorage.getItem(KEYS_OFF) === null;
  function showKeysChoice() {
    const choice = $("#keys-on");
    if (!choice) return;
    choice.closest("[hidden]")?.removeAttribute("hidden");
    choice.checked = areKeysOn();
    choice.addEventListener("change", () => (choice.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")));
  }
  // j and k walk through the rows of a page's first list, x ticks the one that is stood on.
  function walkRows(key) {
    const rows = [...document.querySelectorAll("main tbody tr:has(a.name)")];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    if (key === "x") {
      const box = at >= 0 && $(".tick input", rows[at]);
      if (box) box.click();
      return Boolean(box);
    }
    const next = key === "j" ? rows[at + 1] : key === "k" ? rows[Math.max(at, 1) - 1] : null;
    if (next) $("a.name", next).focus();
    return Boolean(next);
  }
  let pending = "";
  let pendingTimer = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !areKeysOn()) return;
    if (event.target.closest("input, textarea, select, [contenteditable]") || $("dialog[open]")) return;
    if (event.key === "/" && openSearch()) {
      event.preventDefault();
    } else if (event.key === "?") {
      const help = $("[data-help-open]");
      if (help) { event.preventDefault(); help.click(); }
    } else if (!pending && walkRows(event.key)) {
      event.preventDefault();
    } else if (/^[a-z]$/.test(event.key)) {
      const link = pending && $(`[data-keys="${pending} ${event.key}"]`);
      pending = event.key === "g" ? "g" : "";
      clearTimeout(pendingTimer);
      pendingTimer = setTimeout(() => { pending = ""; }, 1200);
      if (link) { event.preventDefault(); link.click(); }
    }
  });
  // Arrows walk from the search box through the results and back; Escape closes at once, where a browser would only
  // empty the box.
  document.addEventListener("keydown", (event) => {
    const palette = event.target.closest("#search-dialog");
    if (palette && event.key === "Escape") palette.close();
    if (!palette || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    const stops = [$("#palette-input"), ...palette.querySelectorAll(".results a")];
    const at = stops.indexOf(event.target);
    if (at < 0) return;
    event.preventDefault();
    stops[(at + (event.key === "ArrowDown" ? 1 : stops.length - 1)) % stops.length].focus();
  });

  // --- tick all of a list ---
  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-check-all]");
    if (!all) return;
    for (const box of all.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = all.checked;
  });

  // --- a button ticks all of the boxes in the part that it names ---
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-tick-all]");
    if (!button) return;
    // One that ticks others may be among them.
    for (const box of document.querySelectorAll(`${button.dataset.tickAll} input[type=checkbox]`)) if (!box.checked) box.click();
  });

  // --- boxes that are ticked while a search for further choices runs keep their state ---
  document.addEventListener("htmx:beforeSwap", (event) => {
    const choices = event.detail.target;
    if (!choices.matches("[data-searched]")) return;
    const before = new Map([...choices.querySelectorAll("input[type=checkbox]")].map((box) => [box.value, box.checked]));
    document.addEventListener("htmx:afterSwap", () => {
      for (const box of document.querySelectorAll(`#${choices.id} input[type=checkbox]`)) {
        if (before.has(box.value)) box.checked = before.get(box.value);
      }
    }, { once: true });
  });

  // --- what is done to ticked rows says how many they are, and waits for the first, or for as many as data-ticks ---
  function countTicks() {
    for (const form of document.querySelectorAll("form[data-ticks]")) {
      const count = form.querySelectorAll("tbody input[type=checkbox]:checked").length;
      const mark = $("[data-ticked]", form);
      if (mark) mark.textContent = count;
      for (const button of form.querySelectorAll(".card-foot button:not([data-tick-all])")) button.disabled = count < Number(form.dataset.ticks || 1);
    }
  }
  document.addEventListener("change", (event) => { if (event.target.closest("form[data-ticks]")) countTicks(); });

  // --- the current tab is in view, however many stand before it ---
  function showCurrentTab() {
    for (const tabs of document.querySelectorAll(".tabs")) {
      const current = $("[aria-current]", tabs);
      if (current) tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
    }
  }
  window.addEventListener("resize", showCurrentTab);

  // --- what scrolls sideways can be scrolled by keyboard ---
  function nameScrollers() {
    for (const wrap of document.querySelectorAll(".table-wrap:not([role])")) {
      if (wrap.scrollWidth <= wrap.clientWidth) continue;
      wrap.tabIndex = 0;
      wrap.setAttribute("role", "region");
      wrap.setAttribute("aria-label", $("caption", wrap)?.textContent || document.title);
    }
  }
  window.addEventListener("resize", nameScrollers);

  // --- a choice among many is narrowed by words: a search box, called so, before <select data-narrow="words"> ---
  const MANY = 12;
  function narrowChoices() {
    for (const select of document.querySelectorAll("select[data-narrow]:not([data-narrowed])")) {
      select.dataset.narrowed = "";
      const all = [...select.options];
      if (all.length <= MANY) continue;
      const box = document.createElement("input");
      box.type = "search";
      box.placeholder = select.dataset.narrow;
      box.setAttribute("aria-label", `${$(`label[for="${select.id}"]`)?.firstChild.textContent.trim() || ""}: ${select.dataset.narrow}`);
      box.addEventListener("input", () => {
        const words = box.value.toLowerCase().split(/\s+/);
        const fits = (option) => !option.value || option.selected || words.every((word) => option.text.toLowerCase().includes(word));
        select.replaceChildren(...all.filter(fits));
      });
      // A key meant for the choice must not send the form.
      box.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); select.focus(); } });
      select.before(box);
    }
  }

  // So are many boxes to tick: what is ticked stays in sight.
  function narrowBoxes() {
    for (const group of document.querySelectorAll("fieldset[data-narrow]:not([data-narrowed], [data-searched] *)")) {
      group.dataset.narrowed = "";
      const rows = [...group.querySelectorAll("label")];
      if (rows.length <= MANY) continue;
      const box = document.createElement("input");
      box.type = "search";
      box.placeholder = group.dataset.narrow;
      box.setAttribute("aria-label", `${$("legend", group).textContent.trim()}: ${group.dataset.narrow}`);
      box.addEventListener("input", () => {
        const words = box.value.toLowerCase().split(/\s+/);
        for (const row of rows) row.parentElement.hidden = !$("input", row).checked && !words.every((word) => row.textContent.toLowerCase().includes(word));
      });
      box.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
      $("legend", group).after(box);
    }
  }

  for (const field of document.querySelectorAll("[data-own-zone]")) field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  guardForms();
  narrowChoices();
  narrowBoxes();
  refill();
  countTicks();
  showCurrentTab();
  nameScrollers();
  guardConfirm(document);
  showKeysChoice();
  document.addEventListener("htmx:load", () => { guardForms(); narrowChoices(); narrowBoxes(); countTicks(); nameScrollers(); });
  window.addEventListener("pageshow", countTicks); // a browser that goes back keeps the ticks
})();
