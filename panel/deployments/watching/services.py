"""Check every live site twice a minute, from its host and from the panel, and record the changes. With very many
hosts: once a minute.

Each sweep asks several hosts at once, in its own threads, so unresponsive hosts delay no other work. If a host does not
respond, the sweep asks it once more, then records it as unreachable and the health of its sites as unknown.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice

from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from panel.core.changed_messages import ChangedMessages
from panel.deployments import host_agent
from panel.deployments.execution.probes import Health as Expected
from panel.deployments.health import Observed
from panel.deployments.models import Health, HealthChange, SiteState
from panel.deployments.watching import questions, selectors
from panel.deployments.watching.questions import Questions
from panel.hosts import watching
from panel.hosts.authorities import authorities_once, with_authorities
from panel.hosts.models import Connection, Host, HostStatus
from panel.hosts.sweeps import sweep_hosts
from panel.remote.client import Message
from panel.remote.errors import RemoteError
from panel.rendering.spec import SiteSpec, from_json

_messages = ChangedMessages(logging.getLogger(__name__))

EVERY_S, MANY_EVERY_S = 30, 60  # pages show a change within a minute, even if a host fails slowly
MANY_HOSTS = 200  # above it, sweeps twice a minute would need a tenth of a processor
REST_S = 5.0  # no check begins in the last REST_S of a sweep; hosts that are left wait for the next one
NOT_ASKED = "Paddock does not request the health page from the panel."
AT_ONCE = 16  # hosts; each takes a thread until it responds
AGAIN_AFTER_S = 2.0  # a single failure may be a reload
RECORDED_AT_ONCE = 100  # hosts in one transaction
KEPT_CHANGES = 200  # of one site
MOST_KEPT_SPECS = 20_000
_SWEEP = "deployments:watch-sweep"


def round_run(pause: Callable[[float], None] = time.sleep) -> int:
    """Check every watched host and its live sites once; return the number of checked hosts.

    Returns 0 at once if any worker began a sweep less than about EVERY_S ago (MANY_EVERY_S with many hosts).
    """
    healthy, silent = watching.hosts_watched()
    every = EVERY_S if len(healthy) + len(silent) <= MANY_HOSTS else MANY_EVERY_S
    if not cache.add(_SWEEP, True, timeout=every - 2):
        return 0
    until = time.monotonic() + every - REST_S
    random.shuffle(silent)  # each gets its turn when there are more than one sweep can ask

    def ask(pk: int) -> bool:
        return host_watch(pk, pause=pause)

    failure = "host %s was not observed"
    return sweep_hosts(ask, [*healthy, *silent], until=until, at_once=AT_ONCE, failure=failure)


def host_watch(pk: int, *, pause: Callable[[float], None] = time.sleep) -> bool:
    """Check one host and its live sites, and record the observations. Return False if the host is not watched: deleted,
    paused, or no longer trusted.
    """
    host = watching.host_look(pk, pause=pause)
    if host is None:
        return False
    looks = _looks([host])
    for look in looks:
        look.ask(pause)
    health_record(looks)
    return True


def sites_watch(
    hosts: Collection[Host], sites: Collection[int], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Check the live sites with ids in `sites` on several hosts at once, and record the observations.

    The threads make no query, so the number of queries is constant, apart from the queries that store changes.
    """

    def ask(look: Look) -> Look:
        look.ask(pause)
        return look

    looks = _looks(hosts, sites)
    with authorities_once(), ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sites") as threads:
        host_agent.connect_soon(hosts)  # also reads their bastions, which the threads need
        asked = threads.map(with_authorities(ask), looks)
        while part := list(islice(asked, RECORDED_AT_ONCE)):
            health_record(part)


@dataclass(frozen=True)
class Look:
    """A check of the live sites of one host.

    `states` are the states of the sites, `specs` their specs by revision id. `inside` and `outside` are the
    observations from the host and from the panel, by state id.
    """

    host: Host
    states: Sequence[SiteState]
    specs: Mapping[int, SiteSpec]
    inside: dict[int, Observed] = field(default_factory=dict)
    outside: dict[int, Observed] = field(default_factory=dict)

    def ask(self, pause: Callable[[float], None]) -> None:
        """Send the requests, from the host and from the panel. Makes no database query."""
        asked = self._questions()
        if self.host.status == HostStatus.READY:
            self.inside.update(_inside(self.host, self.states, asked))
        # A site that failed last time is not worth the wait: with one on each of many hosts, no sweep would end in
        # time.
        failed = [state for state in self.states if state.pk in self.inside and not self.inside[state.pk].is_well]
        again = [state for state in failed if state.health != Health.FAILING]
        if again:
            pause(AGAIN_AFTER_S)
            self.inside.update(_inside(self.host, again, asked))
        self.outside.update(_outside(self.states, asked))

    def _questions(self) -> dict[int, Questions]:
        address = "" if self.host.connection == Connection.LOCAL else _address(self.host.address)
        found = {}
        for state in self.states:
            site = state.site
            expected = Expected(site.health_path, site.health_status, site.health_text, site.health_header)
            assert state.revision_id is not None
            asked = questions.questions_of(self.specs[state.revision_id], expected, address)
            found[state.pk] = asked if site.watched_from_panel else replace(asked, outside=None)
        return found


def _looks(hosts: Collection[Host], sites: Collection[int] | None = None) -> list[Look]:
    """Prepare checks of the live sites of hosts (only those with ids in `sites`, if given)."""
    changing = selectors.sites_changing(hosts)  # their deployments check them
    live = selectors.live_states(hosts, sites)
    specs = _specs({row.revision.pk: row.revision.created_at for rows in live.values() for row in rows if row.revision})
    return [
        Look(host, [row for row in live[host.pk] if (host.pk, row.site_id) not in changing], specs) for host in hosts
    ]


# By id and time of creation of the revision: a revision never changes, but a database that is restored from a backup
# gives its ids again.
_kept_specs: dict[tuple[int, dt.datetime], SiteSpec] = {}


def _specs(revisions: Mapping[int, dt.datetime]) -> dict[int, SiteSpec]:
    """Return {revision id: SiteSpec}, from the cache of earlier checks where possible.

    `revisions` is {id: time of creation}.
    """
    found = {pk: spec for pk, created in revisions.items() if (spec := _kept_specs.get((pk, created)))}
    missing = revisions.keys() - found.keys()
    if not missing:
        return found
    new = {pk: from_json(SiteSpec, spec) for pk, spec in selectors.specs_of(missing).items()}
    if len(_kept_specs) + len(new) > MOST_KEPT_SPECS:
        _kept_specs.clear()
    _kept_specs.update({(pk, revisions[pk]): spec for pk, spec in new.items()})
    return found | new


def _address(name: str) -> str:
    """Resolve the name of a host to an IP address; "" if the lookup fails."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""


def _inside(host: Host, states: Sequence[SiteState], asked: dict[int, Questions]) -> dict[int, Observed]:
    """Check sites from their host, with its agent; return the results by state id, {} if the agent does not respond."""
    probes = [probe for state in states for probe in asked[state.pk].inside]
    try:
        rows: list[Message] = list(host_agent.observed(host, probes)) if probes else []
    except RemoteError as error:
        _messages.problem(host.pk, f"Paddock could not check the sites of {host} from the host: {error.message}")
        return {}
    _messages.solved(host.pk)
    found: dict[int, Observed] = {}
    for state in states:
        own = asked[state.pk].inside
        part, rows = rows[: len(own)], rows[len(own) :]
        if len(part) == len(own) and (seen := questions.judged(own, part)):
            found[state.pk] = seen
    return found


def _outside(states: Sequence[SiteState], asked: dict[int, Questions]) -> dict[int, Observed]:
    """Check sites from the panel; return the results by state id. A port without a listener is tried only once."""
    found: dict[int, Observed] = {}
    closed: dict[tuple[str, int], Message] = {}
    for state in states:
        probe = asked[state.pk].outside
        if probe is None:
            if state.reach != Health.UNKNOWN:  # an earlier failure must not stay
                found[state.pk] = Observed(None, NOT_ASKED)
            continue
        place = (probe.address, probe.port)
        row = closed.get(place) or questions.asked(probe)
        if not row["connected"]:
            closed[place] = row
        if seen := questions.judged([probe], [row]):
            found[state.pk] = seen
    return found


def health_record(looks: Sequence[Look]) -> None:
    """Store observations of sites in one transaction; a change of a site becomes a row of its history."""
    now = timezone.now()
    changes: list[HealthChange] = []
    changed: dict[tuple[str, ...], list[SiteState]] = {}  # by the names of the changed columns
    inside = [pk for look in looks for pk in look.inside]
    reached = [pk for look in looks for pk, seen in look.outside.items() if seen.is_well]
    for look in looks:
        for state in look.states:
            before = [getattr(state, name) for name in _COLUMNS]
            changes += _noted(state, "health", look.inside.get(state.pk) or _unknown(look.host), now)
            if seen := look.outside.get(state.pk):
                changes += _noted(state, "reach", _reach(state, seen), now)
            names = tuple(name for name, value in zip(_COLUMNS, before, strict=True) if getattr(state, name) != value)
            changed.setdefault(names, []).append(state)
    changed.pop((), None)
    with transaction.atomic():
        SiteState.objects.filter(pk__in=inside).update(health_at=now)
        SiteState.objects.filter(pk__in=reached).update(reach_at=now)
        for names, states in changed.items():
            SiteState.objects.bulk_update(selectors.same_revision(states), names, batch_size=200)
        HealthChange.objects.bulk_create(changes)
    for site in selectors.sites_with_long_history({change.site_id for change in changes}, KEPT_CHANGES):
        kept = HealthChange.objects.filter(site=site).order_by("-pk")[KEPT_CHANGES:]
        HealthChange.objects.filter(pk__in=list(kept.values_list("pk", flat=True))).delete()


# Columns that change with an observation; the times of the last one, health_at and reach_at, change each time.
_COLUMNS = ("health", "health_words", "health_since", "reach", "reach_words", "reach_since")


def _unknown(host: Host) -> Observed:
    return Observed(None, f"The host {host} does not respond, so Paddock cannot check the site from the host.")


def _reach(state: SiteState, seen: Observed) -> Observed:
    """Return the panel's observation of a site. If the panel has never reached the site, a failure counts as unknown,
    because the site's network may be closed to the panel.
    """
    was_reached = state.reach != Health.UNKNOWN
    return seen if seen.is_well or was_reached else Observed(None, f"The panel never reached the site: {seen.words}")


def _noted(state: SiteState, name: str, seen: Observed, now: dt.datetime) -> list[HealthChange]:
    """Store an observation in the columns of a site's state.

    `name` is `health` for observations from the host, `reach` for those from the panel. Return [HealthChange to save],
    or [] if the health is the same.
    """
    before = getattr(state, name)
    setattr(state, f"{name}_words", seen.words)
    if before == seen.health and getattr(state, f"{name}_since") is not None:
        return []
    setattr(state, name, seen.health)
    setattr(state, f"{name}_since", now)
    observer = HealthChange.Observer.HOST if name == "health" else HealthChange.Observer.PANEL
    return [HealthChange(site_id=state.site_id, at=now, observer=observer, health=seen.health, words=seen.words)]
