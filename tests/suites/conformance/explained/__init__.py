"""Departures from nginx that stand in the documentation: what differs, where, and why it is left so.

Those that depend on a site are rows of `panel.rendering.capability`, shown in the editor; `shown` names the row's text
and the departure counts only on sites that it is shown for. Each is as narrow as it can be, so that it hides nothing
else.
"""

from __future__ import annotations

from tests.suites.conformance.explained import apache, openlitespeed
from tests.suites.conformance.explained.case import Case

EXPLAINED = (*apache.EXPLAINED, *openlitespeed.EXPLAINED)


def explanation(engine: str, case: Case) -> str:
    """The name of the documented departure that this is, or nothing."""
    if case.other.status <= 0:  # no answer at all is never one that is merely different
        return ""
    if engine in openlitespeed.NAMES:
        return openlitespeed.explained(case)
    for item in apache.EXPLAINED:
        seen = not item.shown or any(text.startswith(item.shown) for text in case.met.shown)
        if engine in item.engines and seen and item.applies(case):
            return item.name
    return ""
