"""Gates of a wave: health checks of its sites, counts of their access logs, and the response of a hook."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.utils import timezone

from panel.core.errors import ApplicationError
from panel.core.webhooks import check_url, post, resolve
from panel.deployments import host_agent
from panel.deployments.execution.probes import logs_of
from panel.deployments.host_agent import Responses
from panel.deployments.models import Deployment, DeploymentItem, Health, SiteState
from panel.deployments.revisions.rendered import spec_of
from panel.deployments.watching.services import sites_watch
from panel.hosts.authorities import with_authorities
from panel.rollouts.models import Rollout, Wave
from panel.websites.logs import log_roots

AT_ONCE = 16  # number of hosts whose logs are checked at the same time
OTHERS = 10  # number of unchanged hosts that are used for comparison
FEW = 20  # below this number of requests, the gate gives no result
FEW_ERRORS = 3  # below this number of 5xx responses, a site does not fail
FEW_TIMES = 50  # below this number of requests, response times are not judged
LEAST_SLOWER_MS = 50.0  # visitors do not notice a smaller increase


@dataclass(frozen=True)
class Finding:
    """Result of one gate, a check that a wave has to pass; `passed` is None if the gate could not judge."""

    gate: str
    passed: bool | None
    words: str


@dataclass(frozen=True)
class Counted:
    """Responses of one site on one host before and after a deployment, counted from the access log."""

    site: str
    host: str
    before: Responses
    after: Responses


def failing_sites(deployments: Iterable[Deployment]) -> list[int]:
    """Return the primary keys of the sites of these deployments that failed their latest health check."""
    sites = DeploymentItem.objects.filter(deployment__in=list(deployments)).values("site")
    return list(SiteState.objects.filter(site__in=sites, health=Health.FAILING).values_list("site", flat=True))


def answers(wave: Wave, deployments: Sequence[Deployment]) -> Finding:
    """Gate: check the health pages of all sites of the wave now, from their hosts and from the panel.
    The gate fails if a site fails its health check now but did not fail it before the wave.
    """
    items = DeploymentItem.objects.filter(deployment__in=list(deployments))
    sites = list(items.values_list("site", flat=True))
    sites_watch([row.host for row in deployments], sites)
    states = SiteState.objects.filter(site__in=sites).select_related("site")
    worse = [row for row in states if row.health == Health.FAILING and row.site_id not in wave.failing]
    if worse:
        return Finding("answers", False, "; ".join(f"{row.site}: {row.health_words}" for row in worse[:5]))
    unknown = [row for row in states if row.health == Health.UNKNOWN]
    if unknown:
        names = ", ".join(str(row.site) for row in unknown[:5])
        return Finding("answers", None, f"Paddock could not request the health pages of {names}.")
    return Finding("answers", True, f"{len(states)} of {len(states)} sites of the wave respond as expected.")


def responses(rollout: Rollout, deployments: Sequence[Deployment], others: Sequence[Deployment]) -> Finding:
    """Gate: compare the 5xx responses and response times of the wave's sites after their deployment with those before
    the deployment, and with those of unchanged hosts.

    `others` are deployments that have not started; their hosts are unchanged.
    """
    counted = counts_of(deployments, live=True)
    ago_s = max((_ago_s(row) for row in deployments), default=0.0)
    beside = counts_of(others[:OTHERS], live=False, ago_s=ago_s)
    return judged(counted, [row.after for row in beside], rollout.most_errors, rollout.most_slower)


def counts_of(deployments: Sequence[Deployment], *, live: bool, ago_s: float = 0.0) -> list[Counted]:
    """Count the responses in each access log of the deployments' sites, before and after the end of the deployment.

    With `ago_s`, for hosts without a deployment, count the responses before and after the time `ago_s` seconds ago.
    `live` selects the logs of the deployed revision, otherwise those of the previous revision are read. Hosts that do
    not respond are left out.
    """
    places = _logs(deployments, live=live)

    def ask(row: Deployment) -> list[Counted]:
        logs = places.get(row.pk, [])
        if not logs:
            return []
        roots = {root for _site, _path, found in logs for root in found}
        paths = [path for _site, path, _roots in logs]
        try:
            counts = host_agent.log_counts(row.host, paths, roots=roots, ago_s=ago_s or _ago_s(row))
        except ApplicationError:
            return []
        return [
            Counted(site, row.host.name, before, after)
            for (site, _path, _roots), (before, after) in zip(logs, counts, strict=False)
        ]

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rollout") as threads:
        return [found for part in threads.map(with_authorities(ask), deployments) for found in part]


def _ago_s(deployment: Deployment) -> float:
    ended = deployment.finished_at or timezone.now()
    return (timezone.now() - ended).total_seconds()


def _logs(deployments: Sequence[Deployment], *, live: bool) -> dict[int, list[tuple[str, str, list[str]]]]:
    """Return {primary key of a deployment: [(site name, log path, log folders)]} for the access logs of the
    deployments' sites.

    With `live`, these are the logs of the revision that the deployment deploys, otherwise those of the previous
    revision.
    """
    side = "revision" if live else "previous"
    items = DeploymentItem.objects.filter(deployment__in=list(deployments), **{f"{side}__isnull": False})
    items = items.select_related("site", f"{side}__web_server__host").defer(f"{side}__files")
    found: dict[int, dict[str, tuple[str, str, list[str]]]] = {}
    for item in items.order_by("pk"):
        revision = item.revision if live else item.previous
        assert revision is not None
        logs = found.setdefault(item.deployment_id, {})
        for _host, path in logs_of(spec_of(revision)):
            logs.setdefault(path, (item.site.name, path, log_roots(revision.web_server)))
    return {key: list(logs.values()) for key, logs in found.items()}


def judged(counted: Sequence[Counted], beside: Sequence[Responses], most_errors: float, most_slower: int) -> Finding:
    """Judge the responses of each site after the deployment, by comparison with its responses before the deployment.

    They are also compared with the responses of unchanged hosts (`beside`). `most_errors` is in percentage points,
    `most_slower` in percent. Pure: no I/O.
    """
    others = _share(sum(row.errors for row in beside), sum(row.requests for row in beside))
    for row in counted:
        share = _share(row.after.errors, row.after.requests)
        allowed = max(_share(row.before.errors, row.before.requests), others) + most_errors
        if row.after.errors >= FEW_ERRORS and share > allowed:
            return Finding("responses", False, _errors_words(row, others, beside))
        slower = _slower(row, most_slower)
        if slower:
            return Finding("responses", False, slower)
    requests, errors = sum(row.after.requests for row in counted), sum(row.after.errors for row in counted)
    if not counted:
        return Finding("responses", None, "The sites of this wave have no access log of their own.")
    if requests < FEW:
        return Finding(
            "responses", None, f"The sites received only {requests} requests since the deployment, too few to judge."
        )
    words = (
        f"{errors} of {requests} requests since the deployment got a 5xx response ({_share(errors, requests):.1f} %)."
    )
    return Finding("responses", True, words)


def _share(errors: int, requests: int) -> float:
    return 100 * errors / requests if requests else 0.0


def _errors_words(row: Counted, others: float, beside: Sequence[Responses]) -> str:
    after, before = row.after, row.before
    words = (
        f"{row.site} on {row.host}: {after.errors} of {after.requests} requests since the deployment got a 5xx "
        f"response ({_share(after.errors, after.requests):.1f} %), but only {before.errors} of {before.requests} "
        f"requests before the deployment ({_share(before.errors, before.requests):.1f} %)"
    )
    return (
        f"{words}, and {others:.1f} % of the requests on hosts without the new configuration."
        if beside
        else f"{words}."
    )


def _slower(row: Counted, most_slower: int) -> str:
    before, after = row.before, row.after
    if before.p99_ms is None or after.p99_ms is None or min(before.requests, after.requests) < FEW_TIMES:
        return ""
    allowed = max(before.p99_ms * (1 + most_slower / 100), before.p99_ms + LEAST_SLOWER_MS)
    if after.p99_ms <= allowed:
        return ""
    return (
        f"{row.site} on {row.host}: 99 % of the requests since the deployment took at most "
        f"{math.ceil(after.p99_ms)} ms, but {math.ceil(before.p99_ms)} ms before the deployment."
    )


def hook(rollout: Rollout, wave: Wave, deployments: Sequence[Deployment]) -> Finding:
    """Send a POST request to the rollout's hook; a response with a 2xx status lets the wave pass."""
    body = {
        "event": "rollout.wave",
        "rollout": str(rollout.uuid),
        "wave": wave.position,
        "waves": rollout.waves.count(),
        "hosts": [row.host.name for row in deployments],
    }
    headers = {"Content-Type": "application/json", "User-Agent": "Paddock", "Paddock-Event": "rollout.wave"}
    try:
        url = check_url(rollout.hook_url)
        status = post(url, resolve(url), headers, json.dumps(body).encode())
    except ApplicationError as error:
        return Finding("hook", False, error.message)
    except (OSError, http.client.HTTPException) as error:
        return Finding("hook", False, f"The hook did not respond: {error or type(error).__name__}.")
    return Finding("hook", 200 <= status < 300, f"The hook responded with status {status}.")
