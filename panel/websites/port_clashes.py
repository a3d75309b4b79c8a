"""Conflicts of sites over the ports of a host: a port with a stream server belongs to one site."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may
from panel.hosts.models import WebServer
from panel.rendering.claims import socket_text
from panel.websites.models import Listen, ServerBlock, Site, StreamServer
from panel.websites.problems import Problem
from panel.websites.stream_rules import Port, listen_ports, ports_of_listen, stream_ports


def site_label(user: User, site: Site) -> str:
    """Return the label of another site for a message to `user`: its real name only if the user can see the site."""
    if may(user, Action.VIEW, Team(pk=site.team_id)):
        return _("the site %s") % site.name
    return _("a site of another team")


def port_text(port: Port) -> str:
    """Return a port as messages name it: `*:5432`, `*:53 (UDP)`."""
    text = socket_text(port.address, port.port)
    return f"{text} (UDP)" if port.protocol == "udp" else text


def stream_clashes(actor: User, site: Site, web_server: WebServer, blocks: Sequence[ServerBlock]) -> list[Problem]:
    """Return problems with ports that stream servers of the site share with another part of the site or with another
    enabled site of the host, and with ports of server blocks that stream servers of other sites have.
    """
    streams = stream_ports(site.stream_servers.all())
    listens = list(listen_ports(blocks))
    of_streams = _other_streams(site, web_server, {port.port for port in (*streams, *listens)})
    of_listens = _other_listens(site, web_server, {port.port for port in streams})
    problems = _own_clashes(streams, listens)
    for mine, others in [
        *((port, [*of_streams, *of_listens]) for port in streams),
        *((port, of_streams) for port in listens),  # server blocks share their ports with each other
    ]:
        theirs = next((other for port, other in others if mine.overlaps(port)), None)
        if theirs is not None:
            words = _(
                "%(listen)s is already used by %(server)s for %(site)s. Use another port, or move one of the sites."
            )
            values = {"listen": port_text(mine), "server": theirs.web_server, "site": site_label(actor, theirs)}
            problems.append(Problem(mine.where, words % values))
    return problems


def _own_clashes(streams: Sequence[Port], listens: Sequence[Port]) -> list[Problem]:
    found = []
    for number, mine in enumerate(streams):
        if any(mine.overlaps(other) for other in (*streams[:number], *listens)):
            words = _("%s is already used by this site. Choose another port.")
            found.append(Problem(mine.where, words % port_text(mine)))
    return found


def _other_streams(site: Site, web_server: WebServer, ports: Set[int]) -> list[tuple[Port, Site]]:
    """Return (port, site) pairs: ports with a number in `ports` on which stream servers of other enabled sites of the
    host listen.
    """
    if not ports:
        return []
    rows = StreamServer.objects.filter(port__in=ports, site__enabled=True, site__web_server__host=web_server.host_id)
    rows = rows.exclude(site=site.pk).select_related("site__web_server__host").order_by("site__name", "pk")
    return [(port, row.site) for row in rows for port in stream_ports([row])]


def _other_listens(site: Site, web_server: WebServer, ports: Set[int]) -> list[tuple[Port, Site]]:
    """Return (port, site) pairs: ports with a number in `ports` on which server blocks of other enabled sites of the
    host listen.
    """
    if not ports:
        return []
    rows = Listen.objects.filter(
        port__in=ports, block__site__enabled=True, block__site__web_server__host=web_server.host_id
    )
    rows = rows.exclude(block__site=site.pk).select_related("block__site__web_server__host")
    return [
        (port, listen.block.site)
        for listen in rows.order_by("block__site__name", "pk")
        for port in ports_of_listen(listen)
    ]


def suspects(sites: Collection[int]) -> list[QuerySet[Any, int]]:
    """Return two querysets of site ids: sites with stream servers, and sites with a port that a stream server of
    another site of the host also has. Only these sites can have conflicts over ports.
    """
    others = StreamServer.objects.filter(
        port=OuterRef("port"),
        site__enabled=True,
        site__web_server__host=OuterRef("block__site__web_server__host"),
    ).exclude(site=OuterRef("block__site"))
    rows = Listen.objects.filter(Exists(others), block__site__in=sites).order_by()
    return [
        StreamServer.objects.filter(site__in=sites).order_by().values_list("site", flat=True),
        rows.values_list("block__site", flat=True),
    ]
