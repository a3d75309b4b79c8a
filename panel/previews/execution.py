"""Execution of a queued preview: private copies of each site's live version and draft receive the same requests.
The private web servers are a test bed (benchmarks.testbeds), which the host's agent keeps until its `testbed` request
ends. The web servers also stop if this worker or the connection ends. A preview of a dead worker starts again.
"""

from __future__ import annotations

import datetime
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied, ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.benchmarks.testbeds.layout import PORTS, request_json
from panel.benchmarks.testbeds.lifecycle import HeldTestbed
from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError, words_of
from panel.core.jobs import JobStatus
from panel.deployments.models import DeploymentItem, PinnedFile, Revision
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.targets import target_for
from panel.previews import results
from panel.previews.asking import Listener, Question, logged, questions
from panel.previews.copies import AFTER, BEFORE, LOOPBACK, Copy, Version, listeners, request
from panel.previews.explained import location_of
from panel.previews.models import Preview
from panel.previews.results import Heard, SiteResult
from panel.remote import pool
from panel.remote.errors import OperationRefused
from panel.remote.target import Target
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec
from panel.websites.certificates import self_signed
from panel.websites.logs import site_log_tail, site_logs
from panel.websites.models import Site
from panel.websites.web_server_specs import web_server_spec_for

logger = logging.getLogger(__name__)

MOST_SITES = 20
LOG_LINES = 2000
MOST_LOGS = 3
ATTEMPTS = 4  # ports are chosen here and may be in use there
ASK_TIMEOUT_S = 600.0
Check = Callable[[], None]


class Stopped(Exception):
    """Raised if the preview was cancelled, or another worker has taken it."""


def preview_execute(uuid: UUID) -> Attempt:
    """Claim and execute one queued preview. Errors are recorded in the preview, not raised."""
    claim = Claim(Preview)
    if not claim.take([uuid], started_at=timezone.now()):
        return Attempt.NOTHING
    preview = Preview.objects.select_related("deployment__host", "requested_by").get(uuid=uuid)
    with claim.heartbeat():
        status, error = _outcome(preview, claim)
    values = {"status": status, "error": error, "sites": preview.sites, "finished_at": timezone.now(), "progress": ""}
    if not claim.rows.filter(pk=preview.pk).update(**values):
        logger.warning("preview %s was taken over by another worker; its outcome counts", uuid)
    return Attempt.DONE


def orphans_queue() -> list[UUID]:
    """Queue previews of dead workers again; return the ids of all queued previews."""
    return claims.orphans_queue(Preview, "created_at", "pk")


def _outcome(preview: Preview, claim: Claim) -> tuple[JobStatus, str]:
    try:
        preview.sites = results.to_json(_compared(preview, claim))
    except Stopped:
        return JobStatus.CANCELLED, ""
    except (ApplicationError, ValidationError, PermissionDenied) as error:
        return JobStatus.FAILED, words_of(error)
    except Exception:
        logger.exception("preview %s failed", preview.uuid)
        return JobStatus.FAILED, _(
            "The panel failed because of an internal error. See the panel's log, and report the bug."
        )
    return JobStatus.SUCCEEDED, ""


def _compared(preview: Preview, claim: Claim) -> list[SiteResult]:
    if preview.requested_by is None:
        raise ApplicationError(
            _("The user who requested this preview no longer has an account. Start the preview again.")
        )
    rows = claim.rows.filter(pk=preview.pk)

    def check() -> None:
        if rows.values_list("cancel_requested", flat=True).first() is not False:
            raise Stopped

    related = ("site__team", "revision__web_server__host", "previous__web_server__host")
    items = list(preview.deployment.items.select_related(*related).order_by("site__name"))
    found = []
    for number, item in enumerate(items[:MOST_SITES]):
        check()
        rows.update(progress=item.site.name)
        found.append(_of_site(preview.requested_by, item, f"{preview.uuid}-{number}", check))
    words = _("A preview covers at most %d sites. Plan this site alone to preview the site.") % MOST_SITES
    return [*found, *(SiteResult(item.site.name, error=words) for item in items[MOST_SITES:])]


def _of_site(actor: User, item: DeploymentItem, ident: str, check: Check) -> SiteResult:
    site = item.site
    try:
        before, after = _versions(item)
        lines, notes = _log_lines(actor, site)
        requests = logged(lines)
        asked = questions([before.spec, after.spec], requests)
        with_copies = _Copies(target_for(item.revision.web_server.host), before, after)  # type: ignore[union-attr]
        heard = with_copies.asked(ident, asked, check)
    except NotExpressible as error:
        return SiteResult(site.name, error=_("Paddock cannot copy the site: %s") % error.message)
    except (ApplicationError, ValidationError) as error:
        return SiteResult(site.name, error=words_of(error))
    found = [results.difference(*parts) for parts in zip(asked, *heard, strict=True)]
    differences = [one for one in found if one is not None]
    listed, unlisted = differences[: results.MOST_LISTED], len(differences[results.MOST_LISTED :])
    return SiteResult(site.name, len(asked), len(requests), listed, unlisted, notes=notes)


def _versions(item: DeploymentItem) -> tuple[Version, Version]:
    """Return (live version, version that the plan deploys) of a site.

    Raises ApplicationError if the site has no live version, if the plan removes it, or if one of the versions cannot be
    copied.
    """
    if item.revision is None:
        raise ApplicationError(_("The plan removes the site from its host, so there is nothing to compare."))
    if item.previous is None:
        raise ApplicationError(_("The site is not deployed on this host yet, so there is nothing to compare with."))
    if PinnedFile.objects.filter(site=item.site).exists():
        raise ApplicationError(
            _("Some files of the site keep a version that was edited on the host, so Paddock cannot preview the site.")
        )
    return _version(item.site, item.previous), _version(item.site, item.revision)


def _version(site: Site, revision: Revision) -> Version:
    spec = spec_of(revision)
    if not spec.blocks:
        raise ApplicationError(_("The site has no server block, so there are no responses to compare."))
    web_server = revision.web_server
    return Version(spec, web_server_spec_for(site, web_server, spec), web_server.paths.get("binary", ""))


def _log_lines(actor: User, site: Site) -> tuple[list[str], list[str]]:
    """Return (lines of the site's own access logs, notes about logs that could not be read)."""
    lines: list[str] = []
    notes = []
    logs = [log for log in site_logs(actor, site) if log.key.startswith("access_log")][:MOST_LOGS]
    if not logs:
        notes.append(
            _("The site has no access log of its own, so Paddock requested only example paths of the site's locations.")
        )
    for log in logs:
        try:
            lines += site_log_tail(actor, site, log, lines=LOG_LINES)
        except (ApplicationError, PermissionDenied) as error:
            notes.append(f"{log.path}: {words_of(error)}")
    return lines, notes


class _Copies:
    """Private web servers on the host, one for each version of a site, that respond to the preview's requests."""

    def __init__(self, target: Target, before: Version, after: Version) -> None:
        self._target = target
        self._versions = {BEFORE: before, AFTER: after}
        bundle = self_signed(["preview.invalid"], now=datetime.datetime.now(datetime.UTC), days=2)
        self._tls = (bundle.certificate_pem, bundle.private_key_pem)

    def asked(self, ident: str, asked: Sequence[Question], check: Check) -> tuple[list[Heard], list[Heard]]:
        """Send each request twice to the live version and once to the draft; return (responses of live, responses of
        draft).

        `check` is called between the steps and raises an exception to stop the preview. Raises RemoteError, and the
        exceptions of `check`.
        """
        held, copies = self._started(ident, check)
        try:
            one = self._responses(ident, copies[0], asked)
            check()
            again = self._responses(ident, copies[0], asked)
            check()
            two = self._responses(ident, copies[1], asked)
        finally:
            held.end()
        return _heard(copies[0], asked, one, again), _heard(copies[1], asked, two)

    def _started(self, ident: str, check: Check) -> tuple[HeldTestbed, list[Copy]]:
        with pool.session(self._target) as agent:
            as_root = agent.identity["uid"] == 0
        for attempt in range(1, ATTEMPTS + 1):
            copies = self._copies()
            held = HeldTestbed(self._target, ident, request_json(request(ident, copies, self._tls, as_root=as_root)))
            try:
                held.up(check)
            except OperationRefused as error:
                held.end()
                if error.code != "busy" or attempt == ATTEMPTS:
                    raise
            else:
                return held, copies
        raise AssertionError("the last attempt returns or raises")

    def _copies(self) -> list[Copy]:
        wanted = {slug: listeners(version.spec) for slug, version in self._versions.items()}
        ports = iter(random.sample(PORTS, sum(len(found) for found in wanted.values())))
        return [
            Copy(slug, version, {listener: next(ports) for listener in wanted[slug]})
            for slug, version in self._versions.items()
        ]

    def _responses(self, ident: str, copy: Copy, asked: Sequence[Question]) -> list[Mapping[str, Any]]:
        """Send the requests to one copy of the site and return its responses, in the same order.
        If this version of the site has no listener for a request, the response is an error.
        """
        there = [item for item in asked if item.visitor.listener in copy.ports]
        sent = [_sent(item, copy.ports[item.visitor.listener]) for item in there]
        with pool.session(self._target) as agent:
            answers = agent.call("answers", {"requests": sent, "testbed": ident}, timeout=ASK_TIMEOUT_S)["answers"]
        by_question = dict(zip(there, answers, strict=True))
        return [by_question.get(item, {"error": _("this version has no listener for the request")}) for item in asked]


def _sent(question: Question, port: int) -> dict[str, object]:
    """Return the request for a private copy of the site, in the agent's format (agents/host/answers.py).

    `port` is the port on which the copy accepts this request.
    """
    visitor = question.visitor
    return {
        "address": LOOPBACK,
        "port": port,
        "host": visitor.host,
        "host_header": visitor.authority,
        "tls": visitor.listener.tls,
        "gzip": False,
        "method": question.method,
        "path": question.path,
    }


def _heard(
    copy: Copy,
    asked: Sequence[Question],
    first: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]] | None = None,
) -> list[Heard]:
    spec: SiteSpec = copy.version.spec
    ports: Mapping[Listener, int] = copy.ports
    return [
        Heard(response, location_of(spec, question), ports, again[number] if again else None)
        for number, (question, response) in enumerate(zip(asked, first, strict=True))
    ]
