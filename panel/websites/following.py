"""Upstreams with host tags, whose servers are the hosts with these tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from panel.accounts.models import Team
from panel.hosts.models import Host
from panel.websites.models import Upstream


def hosts_tagged() -> list[Host]:
    """Return the hosts that have tags and an address, ordered by name; `servers_following` takes this list.

    The panel's own host has no address.
    """
    rows = Host.objects.exclude(tags=[]).exclude(address="").only("name", "address", "tags").prefetch_related("teams")
    return list(rows.order_by("name"))


def servers_following(
    upstream: Upstream, team: Team, hosts: Iterable[Host], given: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return one server of the upstream for each of `hosts` that has all of the upstream's tags and that `team` may
    use.

    A server in `given` with the same address keeps its options, such as its weight or `down`.
    """
    wanted, port = set(upstream.host_tags), upstream.host_port
    chosen = [host.address for host in hosts if wanted <= set(host.tags) and host.permits(team)]
    addresses = [f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in chosen]
    options = {item["address"]: item for item in given if isinstance(item, Mapping) and "address" in item}
    return [options.get(address, {"address": address}) for address in dict.fromkeys(addresses)]
