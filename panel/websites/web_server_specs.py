"""Conversion of a WebServer row to a WebServerSpec for the renderer, with the services of the host that sites may use.
This module imports no models of sites, because the validation of these models imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from django.db.models import Q

from panel.accounts.models import Team
from panel.hosts.models import Engine, Host, Layout, WebServer
from panel.rendering import spec
from panel.rendering.claims import spec_claims
from panel.rendering.targets import LocalServices

if TYPE_CHECKING:
    from panel.websites.models import Site

# Hook for apps that depend on this one (fpm): sockets by host, each with the only team whose sites may use it.
team_sockets: list[Callable[[Iterable[int]], dict[int, dict[str, int]]]] = []


def web_server_spec(web_server: WebServer) -> spec.WebServerSpec:
    return spec.WebServerSpec(
        engine=cast(Any, web_server.engine),
        layout=cast(Any, web_server.layout),
        config_root=web_server.paths["config_root"],
        log_dir=web_server.paths.get("log_dir", ""),
        version=web_server.version,
        modules=frozenset(web_server.modules),
        site_roots=tuple(web_server.host.site_roots),
        own_ports=frozenset(web_server.own_ports if web_server.own_ports is not None else spec.DISTRIBUTION_PORTS),
        own_listeners=tuple(spec.OwnListener(**item) for item in web_server.own_listeners),
        cache_dir=_cache_dir(web_server),
    )


def web_server_spec_for(site: Site, web_server: WebServer, frozen: spec.SiteSpec | None = None) -> spec.WebServerSpec:
    """Return the WebServerSpec for one site, with the services of the host that raw directives of its team may use. If
    the raw directives in `frozen` refer to no name, address or service, the services are not loaded.
    """
    found = web_server_spec(web_server)
    if frozen is not None and not any(
        claim.where.endswith("/snippets") for claim in spec_claims(frozen, web_server.engine)
    ):
        return found
    return replace(found, services=services_of(site.team, web_server.host))


def web_server_specs(web_server: WebServer) -> spec.WebServerSpec:
    """Return the WebServerSpec for the files that all sites of the web server share.
    All services are permitted: each site's services were checked when it was planned, and a service that is no longer
    allowed must not prevent deployments of other sites.
    """
    return replace(web_server_spec(web_server), services=LocalServices(is_any=True))


def _cache_dir(web_server: WebServer) -> str:
    """Return the folder for cached responses, which the web server's package or installation creates."""
    if web_server.engine == Engine.APACHE:
        return "/var/cache/apache2/mod_cache_disk" if web_server.layout == Layout.SITES else "/var/cache/httpd/proxy"
    own = web_server.manages_main_config and web_server.paths.get("prefix")
    return f"{str(web_server.paths['prefix']).rstrip('/')}/temp" if own else "/var/cache"


def services_of(team: Team, host: Host) -> LocalServices:
    """Return the services on `host` itself that sites of `team` may use."""
    rows = host.allowances.filter(Q(team=team) | Q(team=None), kind="service")  # AllowanceKind.SERVICE
    listed = rows.order_by().values_list("value", flat=True)
    sockets = sockets_on([host.pk]).get(host.pk, {})
    own = [f"unix:{path}" for path, owner in sockets.items() if owner == team.pk]
    return LocalServices(own_names(host), (*listed, *own), reserved=frozenset(sockets))


def sockets_on(hosts: Iterable[int]) -> dict[int, dict[str, int]]:
    """Map hosts to their sockets that only one team may use, each with the key of the team. Hosts without such sockets
    are left out.
    """
    found: dict[int, dict[str, int]] = {}
    keys = list(hosts)
    for hook in team_sockets:
        for host, sockets in hook(keys).items():
            found.setdefault(host, {}).update(sockets)
    return found


def own_names(host: Host) -> tuple[str, ...]:
    """Return the host's own names and addresses, as far as the panel knows them."""
    address, facts = Host.objects.values_list("address", "facts").get(pk=host.pk)
    return tuple(filter(None, (address, facts.get("hostname", ""), *facts.get("addresses", ()))))
