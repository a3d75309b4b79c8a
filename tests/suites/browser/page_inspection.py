"""What the eyes of test_every_page.py find: a page is shown as the panel answered it, wide and narrow, light and dark,
and whatever is wrong with it is said. Each page is asked for once and opened once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from playwright.sync_api import APIResponse, Browser, BrowserContext, Page, Route

from panel.accounts.models import User
from tests.support.cast import signed_in

WIDE: Any = {"width": 1280, "height": 900}
NARROW: Any = {"width": 320, "height": 800}  # less than any phone
# What no reader should meet: Django's empty choice and own words, a value without its words, a template that printed
# nothing.
# A token may hold two underscores, too, but not between a name's words alone.
NAME = r"(?<![\w-])(?:__)?[a-z_]*[a-z]__(?:[a-z_]*)(?![\w-])"
DJANGO_ENTER = r"Enter a (?:valid |list of values|complete value)"
RAW = re.compile(
    rf"---------|^None$|\{{'|\['|&lt;|<\w+ object|{NAME}|This field is required|Select a valid|{DJANGO_ENTER}", re.M
)

_SAID = """(found) => found.violations.map(
    (item) => item.id + " " + item.nodes.map((node) => node.target.join(" ")).slice(0, 3).join("; "))"""
# All rules, or those given; contrast has its own search below.
AXE = """async (rules) => (SAID)(await axe.run(document, {
  resultTypes: ["violations"], preload: false, rules: {"color-contrast": {enabled: false}},
  ...(rules && {runOnly: rules}),
}))""".replace("SAID", _SAID)
# What may differ between themes and widths; all else is the same document.
LOOKS = ["link-in-text-block", "scrollable-region-focusable", "target-size"]
# Contrast follows from the colours of words and of what lies under them, and from the words' size: each such look is
# judged where it is seen first. Looking at every word of every page took most of the time.
CONTRAST = """async (known) => {
  const seen = new Set(known), fresh = new Map();
  for (const item of document.body.querySelectorAll("*")) {
    const speaks = item.matches("input, select, textarea")
      || [...item.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!speaks || !item.checkVisibility()) continue;
    const own = getComputedStyle(item), look = [own.color, own.fontSize, own.fontWeight];
    for (let under = item; under; under = under.parentElement) {
      const style = getComputedStyle(under);
      look.push(style.backgroundColor, style.backgroundImage, style.opacity);
    }
    const name = look.filter((word) => !["rgba(0, 0, 0, 0)", "none", "1"].includes(word)).join(" ");
    if (!seen.has(name)) fresh.set(name, [...(fresh.get(name) || []), item].slice(0, 3));
  }
  if (!fresh.size) return [[], []];
  const found = await axe.run({include: [...fresh.values()].flat()},
    {resultTypes: ["violations"], runOnly: ["color-contrast"]});
  return [[...fresh.keys()], (SAID)(found)];
}""".replace("SAID", _SAID)
# Where a phone's page would have to be scrolled sideways, and cells so narrow that their words break into letters.
LAYOUT = """() => {
  const found = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const over = (item) => item.getBoundingClientRect().right > root.clientWidth + 1;
    const wide = [...document.querySelectorAll("main *")].find(over);
    found.push("wider than the window: " + (wide ? wide.outerHTML.slice(0, 120) : ""));
  }
  for (const cell of document.querySelectorAll(".cards tbody :is(td, th), dd, .message p")) {
    const isNarrow = cell.clientWidth > 0 && cell.clientWidth < 90;
    if (isNarrow && cell.innerText.trim().length > 12) found.push("squeezed: " + cell.outerHTML.slice(0, 120));
  }
  for (const item of document.querySelectorAll(".status, .badge, .button")) {
    const isOver = item.clientWidth > 0 && item.scrollWidth > item.clientWidth + 1;
    if (isOver) found.push("does not fit its place: " + item.outerHTML.slice(0, 120));
  }
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) {
    const box = tab.getBoundingClientRect();
    if (box.left < 0 || box.right > root.clientWidth) found.push("the current tab is out of view");
  }
  return found;
}"""
# Resolves once the page handled its new size. A browser sends `resize` with the next frame, which a busy machine draws
# late: until then the current tab is where it was at the former width.
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# A card's lines must be named as the columns are.
CARDS = """() => [...document.querySelectorAll(".table")].flatMap((table) => {
  if (!table.matches(".cards, .matrix")) return ["a table that is neither cards nor matrix"];
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  return [...table.querySelectorAll("tbody tr")].flatMap((row) => [...row.cells].flatMap((cell, index) =>
    cell.dataset.label !== undefined && cell.dataset.label !== heads[index]
      ? ["a cell of " + heads[index] + " is labelled " + cell.dataset.label] : []));
})"""
# Words of a chart that its edges cut off where letters are a quarter wider than those it was drawn with.
CHARTS = """() => [...document.querySelectorAll(".chart-svg")].flatMap((chart) => {
  const edge = chart.getBoundingClientRect();
  const words = [...chart.querySelectorAll("text")];
  for (const word of words) word.style.letterSpacing = "1.5px";
  const cut = words.filter((word) => {
    const box = word.getBoundingClientRect();
    return box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1
      || box.bottom > edge.bottom + 1;
  });
  for (const word of words) word.style.letterSpacing = "";
  return cut.map((word) => "a chart cuts off " + word.textContent);
})"""
_OWN_FORM = re.compile(r'<form\b(?=[^>]*\bmethod="post")(?![^>]*\baction="[^"])[^>]*>')


@dataclass(frozen=True)
class Shown:
    """A page as the panel answered it; `what` says which, when the address alone does not."""

    path: str
    answer: APIResponse
    what: str = ""

    def __str__(self) -> str:
        return f"{self.path} {self.what}".strip()


def context_of(browser: Browser, url: str, user: User | None) -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=WIDE, color_scheme="light", reduced_motion="reduce")
    if user is not None:
        session = signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}])
    context.set_default_timeout(60_000)
    context.add_init_script(script=Axe().axe_script)
    return context


# --- what the panel answers ---


def _is_page(answer: APIResponse, statuses: tuple[int, ...]) -> bool:
    """A whole page: no file, no part of a page, nothing that leads on."""
    is_html = "text/html" in answer.headers.get("content-type", "")
    return answer.status in statuses and is_html and "<!doctype html>" in answer.text()


def pages_of(
    context: BrowserContext, paths: Iterable[str], statuses: tuple[int, ...] = (200, 403, 404)
) -> Iterator[Shown]:
    """Those of the addresses that answer a GET with a page."""
    for path in dict.fromkeys(paths):
        answer = context.request.get(path, max_redirects=0)
        assert answer.status < 500, f"{path} answers {answer.status}"
        if _is_page(answer, statuses):
            yield Shown(path, answer)


def posted(context: BrowserContext, path: str, data: dict[str, Any], what: str) -> Iterator[Shown]:
    """The page that answers this POST, if one does."""
    cookies = {cookie.get("name"): cookie.get("value", "") for cookie in context.cookies()}
    token = cookies.get(settings.CSRF_COOKIE_NAME, "")
    form = {"csrfmiddlewaretoken": token, **data}
    answer = context.request.post(path, form=form, headers={"Referer": path}, max_redirects=0)
    assert answer.status < 500, f"{path} answers a POST with {answer.status}"
    if _is_page(answer, (200, 422, 429)):
        yield Shown(path, answer, what)


def refused(context: BrowserContext, pages: Iterable[Shown]) -> Iterator[Shown]:
    """The pages whose own form was sent with nothing in it, saying so at every field that needs a value."""
    for shown in pages:
        if _OWN_FORM.search(shown.answer.text().partition("<main")[2]):
            yield from posted(context, shown.path, {}, "refused")


# --- what is seen ---


class Window:
    """Shows pages as they were answered; style sheets and scripts are asked for once."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self._shown: Shown | None = None
        self._contrasts: dict[str, list[str]] = {"light": [], "dark": []}
        self._files: dict[str, APIResponse] = {}
        self._looks: list[tuple[Any, Any]] = [(WIDE, "light"), (NARROW, "dark")]
        self.page.route("**/*", self._serve)

    def _serve(self, route: Route) -> None:
        path = urlsplit(route.request.url).path
        if route.request.is_navigation_request():
            assert self._shown is not None
            route.fulfill(response=self._shown.answer)
        elif path.startswith(settings.STATIC_URL):
            if path not in self._files:
                self._files[path] = route.fetch()
            route.fulfill(response=self._files[path])
        else:  # what goes on would answer later, when another page stands here
            route.abort()

    def faults(self, shown: Shown) -> Iterator[str]:
        """What is wrong with the page in both looks, the present one first."""
        self._shown = shown
        self.page.goto(shown.path)
        for size, scheme in self._looks:
            self.page.set_viewport_size(size)
            self.page.emulate_media(color_scheme=scheme)
            self.page.evaluate(SETTLED)
            is_wide = size is WIDE
            seen = [*(_wide if is_wide else _narrow)(self.page), *self._contrast(scheme)]
            yield from (f"{scheme}, {'wide' if is_wide else 'narrow'}: {item}" for item in seen)
        self._looks.reverse()

    def _contrast(self, scheme: str) -> list[str]:
        looks, found = self.page.evaluate(CONTRAST, self._contrasts[scheme])
        if not found:  # what is wrong is said again of the next page
            self._contrasts[scheme] += looks
        return list(found)


def _wide(page: Page) -> Iterator[str]:
    yield from page.evaluate(AXE, None)
    yield from page.evaluate(CARDS)
    yield from page.evaluate(CHARTS)
    yield from (f"shows {raw}" for raw in RAW.findall(page.inner_text("main")))


def _narrow(page: Page) -> Iterator[str]:
    yield from page.evaluate(AXE, LOOKS)
    yield from page.evaluate(LAYOUT)


def look_at(context: BrowserContext, pages: Iterable[Shown]) -> list[str]:
    """What is wrong with these pages."""
    window = Window(context)
    wrong = [f"{shown}: {fault}" for shown in pages for fault in window.faults(shown)]
    window.page.close()
    return wrong
