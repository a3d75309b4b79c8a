"""Look up the names of live sites each hour, and record those that no longer point to their host."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.deployments.domain_names.lookups import addresses_of, names_of, public_of, resolved
from panel.deployments.models import DEPLOYED, NameWatch, SiteState
from panel.hosts.models import Host

MOST_NAMES = 20  # of one site
MOST_SITES = 20_000
AT_ONCE = 16
SWEEP_S = 1800.0  # the sites that are left come first in the next sweep
TAKEN_AS_INTENDED = dt.timedelta(days=14)  # after which a name that is elsewhere is no longer watched
PART = 100  # sites between two looks at the clock


def look() -> int:
    """Look up the domain names of live sites, longest unchecked first, for up to SWEEP_S seconds. Return the number of
    sites whose names were looked up.
    """
    until, count = time.monotonic() + SWEEP_S, 0
    rows = SiteState.objects.filter(status__in=DEPLOYED, revision__isnull=False)
    rows = rows.order_by(F("site__name_watch__looked_at").asc(nulls_first=True), "pk")
    keys = list(rows.values_list("pk", flat=True)[:MOST_SITES])
    for start in range(0, len(keys), PART):
        if time.monotonic() > until:
            break
        count += _part(keys[start : start + PART])
    return count


def _part(keys: Sequence[int]) -> int:
    states = SiteState.objects.filter(pk__in=keys).select_related("site__name_watch", "revision__web_server__host")
    named: dict[SiteState, list[str]] = {}
    for state in states.defer("revision__files"):
        assert state.revision is not None
        found = names_of(block["names"] for block in state.revision.spec["blocks"])
        named[state] = found[:MOST_NAMES]
    hosts = {state.revision.web_server.host for state in named if state.revision}
    names = sorted({name for found in named.values() for name in found})
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="names") as threads:
        known = dict(zip(hosts, threads.map(addresses_of, hosts), strict=True))
        found_at = dict(zip(names, threads.map(resolved, names), strict=True))
    for state, own in named.items():
        assert state.revision is not None
        host = state.revision.web_server.host
        _record(state, own, host, known[host], found_at)
    return len(named)


def _record(
    state: SiteState,
    names: Sequence[str],
    host: Host,
    known: set[str],
    found_at: Mapping[str, list[str] | None],
) -> None:
    before: NameWatch | None = getattr(state.site, "name_watch", None)
    now = timezone.now()
    here = {name for name in before.here if name in names} if before else set()
    since = before.gone_since if before else None
    gone: dict[str, str] = {}
    for name in names:
        addresses = found_at[name]
        if addresses is None:  # DNS did not respond: what was known stays
            if before and name in before.gone:
                gone[name] = before.gone[name]
        elif known.intersection(addresses):
            here.add(name)
        elif name in here:
            gone[name] = _words(name, addresses, host, known)
    if since is not None and now - since > TAKEN_AS_INTENDED:
        here -= set(gone)
        gone = {}
    values = {"looked_at": now, "here": sorted(here), "gone": gone, "gone_since": (since or now) if gone else None}
    NameWatch.objects.update_or_create(site=state.site, defaults=values)


def _words(name: str, addresses: Sequence[str], host: Host, known: set[str]) -> str:
    own = ", ".join(public_of(known)[:3])
    if not addresses:
        return _("The domain name %(name)s no longer has an address in DNS. It pointed to %(host)s before.") % {
            "name": name,
            "host": host,
        }
    values = {"name": name, "there": ", ".join(addresses[:3]), "host": host}
    words = _("The domain name %(name)s now points to %(there)s, no longer to %(host)s.") % values
    return words if not own else words[:-1] + f" ({own})."
