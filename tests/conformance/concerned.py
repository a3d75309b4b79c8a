"""Which of a site's documented differences one request meets: those of the location that answers it.

A site that an engine says otherwise in one place must still be answered as it says everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from panel.rendering.capabilities import Difference, differences
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Request as Question
from panel.rendering.explain import explain
from panel.rendering.spec import InstallSpec, SiteSpec

# Members of a server block that decide nothing about an answer.
_SILENT = re.compile(r"/(?:access_log|access_log_format|error_log|error_log_level)$")


def concerned(
    specs: Sequence[SiteSpec], install: InstallSpec, host: str, port: int, target: str, *, tls: bool = False
) -> list[Difference]:
    """The differences of the answering location, of those it may hand on to, of its upstream and of its block."""
    if target.startswith("http://"):
        host, _, path = target.removeprefix("http://").partition("/")
        target = f"/{path}"
    path = target.encode("latin-1", "surrogateescape").decode("utf-8", "surrogateescape")
    try:
        found = explain(specs, Question("https" if tls else "http", host, port, path))
    except NotExpressible:
        return []
    spec = next((spec for spec in specs if spec.name == found.site), None)
    if spec is None:
        return []
    pointers = {found.location, *(lead.location for lead in found.outcome.leads)} - {""}
    return [item for item in differences(spec, install) if _meets(item.field, found.block, pointers)]


def _meets(field: str, block: str, pointers: set[str]) -> bool:
    if "/locations/" in field:
        return any(field.startswith(f"{pointer}/") for pointer in pointers)
    if field.startswith("/blocks/"):
        return field.startswith(f"{block}/") and not _SILENT.search(field)
    return True
