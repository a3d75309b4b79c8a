"""Parsers of the output of load tools, which return figures with units. Pure functions, tested on recorded output of
the real tools.
"""

from __future__ import annotations

from collections.abc import Callable

from panel.benchmarks.choices import Tool
from panel.benchmarks.tools.commands import BUNDLED
from panel.benchmarks.tools.parsers import ab, gallop_load, h2load, hey, siege, wrk
from panel.benchmarks.tools.parsers.metrics import Metrics, Output, ParseError

__all__ = ["Metrics", "Output", "ParseError", "parse"]

_PARSERS: dict[str, Callable[[Output], Metrics]] = {
    Tool.AB: ab.parse,
    Tool.H2LOAD: h2load.parse,
    Tool.WRK: wrk.parse,
    Tool.SIEGE: siege.parse,
    Tool.HEY: hey.parse,
    BUNDLED: gallop_load.parse,
}


def parse(program: str, output: Output) -> Metrics:
    """Return the figures in the output of `program`, a Tool or the bundled load generator. If the program printed no
    result, raise ParseError with the program's last message.
    """
    return _PARSERS[program](output)
