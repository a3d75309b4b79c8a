"""From what a load tool printed to figures with units. Pure; tested on recorded output of the real tools."""

from __future__ import annotations

from collections.abc import Callable

from panel.benchmarks.choices import Tool
from panel.benchmarks.parsers import ab, h2load, siege, wrk
from panel.benchmarks.parsers.metrics import Metrics, Output, ParseError

__all__ = ["Metrics", "Output", "ParseError", "parse"]

_PARSERS: dict[Tool, Callable[[Output], Metrics]] = {
    Tool.AB: ab.parse,
    Tool.H2LOAD: h2load.parse,
    Tool.WRK: wrk.parse,
    Tool.SIEGE: siege.parse,
}


def parse(tool: Tool, output: Output) -> Metrics:
    """ParseError, with the tool's own last words, when it printed no result."""
    return _PARSERS[tool](output)
