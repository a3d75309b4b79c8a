"""Observe the responses of moving sites on their old hosts, before they are deployed on the new host."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.protocol import ApplyRequest, Probe
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.execution.probes import Asked, extras_of, limited, logs_of
from panel.hosts.models import Host

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Elsewhere:
    """The old host of sites that move (`asked`), with the folders that may contain its access logs."""

    host: Host
    asked: tuple[Asked, ...]
    log_roots: tuple[str, ...]


def observed(request: ApplyRequest, places: Sequence[Elsewhere]) -> ApplyRequest:
    """Return `request` with the responses of the sites' old hosts added to its probes (test requests).

    Makes no database query. If an old host is unreachable, the earlier responses of its sites are unknown, and these
    sites must respond without errors on the new host.
    """
    probes = list(request.probes)
    for place in places:
        try:
            probes = _observed(probes, place)
        except ApplicationError as error:
            logger.warning("%s was not asked what its sites answer: %s", place.host, error.message)
            names = _names(place)
            probes = [replace(probe, was=(), fresh=True) if probe.site in names else probe for probe in probes]
    return replace(request, probes=probes)


def _names(place: Elsewhere) -> set[str]:
    return {item.new.name for item in place.asked}


def _observed(probes: Sequence[Probe], place: Elsewhere) -> list[Probe]:
    found = limited([*probes, *_busiest(place)])
    names = _names(place)
    numbers = [n for n, probe in enumerate(found) if probe.site in names and not probe.fresh]
    rows = host_agent.observed(place.host, [_there(found[n]) for n in numbers])
    seen: dict[int, dict[str, Any]] = dict(zip(numbers, rows, strict=False))
    for n in numbers:
        found[n] = replace(found[n], was=(), seen=seen.get(n), fresh=n not in seen)
    return found


def _busiest(place: Elsewhere) -> list[Probe]:
    """Return probes (test requests) for the most requested paths in the access logs of the moving sites on their old
    host.
    """
    logs = [(item, host, path) for item in place.asked if item.old for host, path in logs_of(item.old)]
    if not logs:
        return []
    answers = host_agent.preflight(place.host, [path for _item, _host, path in logs], roots=place.log_roots).busiest
    found: list[Probe] = []
    for (item, host, _path), addresses in zip(logs, answers, strict=False):
        made = extras_of(replace(item, busiest={host: addresses}))
        found += [probe for probe in made if probe.kind == "address"]
    return found


def _there(probe: Probe) -> Probe:
    """Return a copy of a probe (test request) that goes to the address and port at which the old host serves the
    site.
    """
    if not probe.was:
        return probe
    address, port = probe.was
    return replace(probe, address=str(address), port=int(port), was=())
