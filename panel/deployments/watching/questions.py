"""Requests to the health pages of live sites, from their host and from the panel, and how to judge the responses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.host import probe as asking
from agents.host import request, verdict
from agents.protocol import Probe, plain
from panel.deployments.execution.probes import Asked, Health, health_probes
from panel.deployments.health import Observed
from panel.remote.client import Message
from panel.rendering.spec import SiteSpec

MOST_PER_SITE = 4  # listeners of one site
OUTSIDE_TIMEOUT_S = 3.0
_EVERY_ADDRESS = ("", "*", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True)
class Questions:
    """Requests that check a site. `inside`: requests on the host to its own listeners. `outside`: the request from the
    panel; None if every listener is bound to an address that the panel does not use, and for stream servers.
    """

    inside: tuple[Probe, ...]
    outside: Probe | None


def questions_of(spec: SiteSpec, health: Health, host_address: str) -> Questions:
    """Return the requests that check a live site on a host which the panel reaches at `host_address` ("" for the
    panel's own host).
    """
    found = list(health_probes(Asked(new=spec, health=health)))[:MOST_PER_SITE]
    inside = tuple(dict.fromkeys(probe for _listen, probe in found))
    http = ((listen, probe) for listen, probe in found if not probe.stream)
    open_to_all = (probe for listen, probe in http if listen.address in (*_EVERY_ADDRESS, host_address))
    first = next(open_to_all, None) if host_address else None
    outside = replace(first, address=host_address, timeout_s=OUTSIDE_TIMEOUT_S) if first else None
    return Questions(inside, outside)


def judged(probes: Sequence[Probe], rows: Sequence[Message]) -> Observed | None:
    """Judge the responses `rows` to the probes (test requests) of a site; return the worst result, None if there are no
    responses.
    """
    worst: Observed | None = None
    for probe, seen in zip(probes, rows, strict=False):
        check = request.check_probe(plain(probe))
        found, words = verdict.judge(check, None, seen)
        is_well, expiry = found == verdict.RIGHT, expired(seen)
        if is_well and expiry:
            is_well, words = False, expiry
        if worst is None or (worst.is_well and not is_well):
            worst = Observed(is_well, f"{asking.url(check)} {words}")
    return worst


def expired(seen: Message) -> str:
    """Describe an expired certificate in a response to a probe (a test request); "" if the certificate is valid or
    unknown.

    Deployments do not check for expired certificates: an expired certificate must not block its own renewal.
    """
    ends, at = seen.get("certificate_ends"), seen.get("at")
    if not isinstance(ends, int) or not isinstance(at, int | float) or ends >= at:
        return ""
    try:
        when = dt.datetime.fromtimestamp(ends, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"presents a certificate that expired on {when:%Y-%m-%d %H:%M} UTC"


def asked(probe: Probe) -> Message:
    """Send a probe (a test request) from this process; return the response in the format of the agent's operation
    `observe`.
    """
    return asking.observe(request.check_probe(plain(probe)))
