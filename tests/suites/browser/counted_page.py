"""A page of the browser that counts what an administrator does: clicks, fields, lines pasted on a host, and seconds."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page


@dataclass
class Stage:
    """What one stage of a walk took. `lines` were pasted on a host."""

    name: str
    clicks: int = 0
    fields: int = 0
    lines: int = 0
    seconds: float = 0.0


class CountedPage:
    """`page` with counted actions. Pictures are written to the folder `pictures`, if there is one."""

    def __init__(self, page: Page, pictures: Path | None) -> None:
        self.page, self._pictures = page, pictures
        self.stages: list[Stage] = []

    @contextmanager
    def stage(self, name: str, began: float | None = None) -> Iterator[None]:
        """Count the actions within for this stage. `began` is an earlier begin, by the monotonic clock."""
        began = time.monotonic() if began is None else began
        self.stages.append(Stage(name))
        yield
        self.stages[-1].seconds = time.monotonic() - began

    def click(self, target: Locator) -> None:
        target.click()
        self.stages[-1].clicks += 1

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True).first)

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True).first)

    def tick(self, label: str) -> None:
        self.click(self.page.locator("main").get_by_label(label).first)

    def fill(self, name: str, value: str) -> None:
        """Type into the field of this name."""
        self._field(name).fill(value)
        self.stages[-1].fields += 1

    def choose(self, name: str, option: str) -> None:
        """Choose an option of a list, by its text; nothing if it is chosen already."""
        field = self._field(name)
        if field.locator("option:checked").inner_text() != option:
            field.select_option(label=option)
            self.stages[-1].fields += 1

    def _field(self, name: str) -> Locator:
        return self.page.locator(f"main [name={name}]:visible").first

    def paste(self, shell: Callable[[str], str]) -> str:
        """Run the copied line in the shell of a host; return what it prints."""
        self.stages[-1].lines += 1
        return shell(self.page.evaluate("navigator.clipboard.readText()"))

    def picture(self, name: str) -> None:
        """Keep a picture of what the window shows, with 256 colors."""
        if self._pictures:
            self._pictures.mkdir(parents=True, exist_ok=True)
            taken = io.BytesIO(self.page.screenshot())
            Image.open(taken).convert("RGB").quantize(256).save(self._pictures / f"{name}.png", optimize=True)


def table(stages: list[Stage]) -> str:
    """The stages and their sum as a Markdown table."""
    lines = ["| Stage | Clicks | Fields | Lines pasted | Seconds |", "|---|---|---|---|---|"]
    total = Stage("**All**")
    for stage in stages:
        total.clicks, total.fields = total.clicks + stage.clicks, total.fields + stage.fields
        total.lines, total.seconds = total.lines + stage.lines, total.seconds + stage.seconds
    for stage in [*stages, total]:
        lines.append(f"| {stage.name} | {stage.clicks} | {stage.fields} | {stage.lines} | {stage.seconds:.1f} |")
    return "\n".join(lines) + "\n"
