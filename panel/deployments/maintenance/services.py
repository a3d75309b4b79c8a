"""Put sites into maintenance and end it: deploy the live revision with a maintenance page, and later without the page.

Drafts are not deployed. Each change is one deployment per host that is confirmed at once. The deployment is rolled back
if a web server refuses the new files, or if a site responds neither with the maintenance page nor as before.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require_each
from panel.audit.services import audit_record
from panel.core.changed_messages import ChangedMessages
from panel.core.errors import ApplicationError, Conflict, words_of
from panel.deployments.confirmation.services import (
    deployment_confirm,
    deployments_confirm_themselves,
    refuse_busy,
)
from panel.deployments.locking import sites_lock
from panel.deployments.maintenance.rows import rows_settle, sites_busy
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, PinnedFile, Revision
from panel.deployments.planning.changes import Change
from panel.deployments.planning.selectors import live_revisions
from panel.deployments.planning.services import changes_plan
from panel.deployments.revisions.rendered import blobs_keep, records_of, revision_of_records, spec_of
from panel.hosts.models import Host
from panel.rendering import render, spec
from panel.rendering.errors import NotExpressible
from panel.websites.models import Maintenance, Site
from panel.websites.web_server_specs import web_server_spec_for

_messages = ChangedMessages(logging.getLogger(__name__))

AGAIN_S = 60  # before another attempt to end a maintenance
TEXT = "This site is being maintained. Please try again later."


@dataclass(frozen=True)
class Settings:
    """Settings of a maintenance: the page's text, the Retry-After header in seconds, addresses and networks whose
    visitors see the site, and the time at which it ends by itself.
    """

    text: str = TEXT
    retry_after_s: int = 600
    allowed: Sequence[str] = field(default_factory=tuple)
    ends_at: dt.datetime | None = None


def maintenance_start(*, actor: User, sites: Iterable[Site], settings: Settings) -> list[Deployment]:
    """Put live sites into maintenance, or change the settings of a running maintenance; return the queued deployments.

    Raises PermissionDenied, ValidationError (settings), ApplicationError if a site is not live or its web server has no
    maintenance page, Conflict while a site is being deployed. After an error, no site is changed.
    """
    chosen = _allowed(actor, sites)
    if settings.ends_at is not None and settings.ends_at <= timezone.now():
        raise ValidationError({"ends_at": _("Enter a time in the future.")})
    rows = [_row(actor, site, settings) for site in chosen]
    for row in rows:
        row.full_clean()
    plans = _planned(actor, chosen, spec.Maintenance(settings.text, settings.retry_after_s, tuple(settings.allowed)))
    with _or_discarded(plans), transaction.atomic():
        sites_lock(site.pk for site in chosen)
        refuse_busy(site.pk for site in chosen)
        for row in rows:
            row.save()
            after = {"text": row.text, "allowed": row.allowed, "ends_at": row.ends_at and row.ends_at.isoformat()}
            audit_record(actor=actor, action="maintenance.start", target=row.site, after=after)
        _confirm(actor, plans)
    return plans


def maintenance_end(*, actor: User | None, sites: Iterable[Site]) -> list[Deployment]:
    """End the maintenance of sites: they respond as before. Return the queued deployments. `actor` None is the panel.

    Sites that are not in maintenance are skipped. Raises the errors of `maintenance_start`.
    """
    chosen = _allowed(actor, sites) if actor else list(sites)
    rows_settle(site.pk for site in chosen)
    kept = set(Maintenance.objects.filter(site__in=chosen).values_list("site", flat=True))
    chosen = [site for site in chosen if site.pk in kept]
    plans = _planned(actor, chosen, None)
    with _or_discarded(plans), transaction.atomic():
        sites_lock(site.pk for site in chosen)
        refuse_busy(site.pk for site in chosen)
        for site in chosen:
            audit_record(actor=actor, action="maintenance.end", target=site)
        _confirm(actor, plans)
    return plans


def maintenance_due_end() -> None:
    """End maintenances whose `ends_at` has passed, and delete rows whose deployment was canceled.

    A site that is being deployed is left for a later call. After a failed attempt, the next one follows after AGAIN_S.
    """
    rows_settle(Maintenance.objects.values_list("site", flat=True))
    now = timezone.now()
    recent = Q(end_tried_at__gt=now - dt.timedelta(seconds=AGAIN_S))
    due = Maintenance.objects.filter(ends_at__lte=now).exclude(recent).exclude(site__in=sites_busy())
    for row in due.select_related("site__team"):
        Maintenance.objects.filter(pk=row.pk).update(end_tried_at=now)
        try:
            maintenance_end(actor=None, sites=[row.site])
        except (ApplicationError, ValidationError) as error:
            _messages.problem(row.pk, f"the maintenance of {row.site} is not ended yet: {words_of(error)}")
        else:
            _messages.solved(row.pk)


def _allowed(actor: User, sites: Iterable[Site]) -> list[Site]:
    chosen = list({site.pk: site for site in sites}.values())
    if not chosen:
        raise ApplicationError(_("No sites selected. Choose at least one site."), field="sites")
    require_each(actor, Action.DEPLOY, (site.team for site in chosen))
    return chosen


def _row(actor: User, site: Site, settings: Settings) -> Maintenance:
    row = Maintenance.objects.filter(site=site).first() or Maintenance(site=site, started_by=actor)
    row.text, row.retry_after_s = settings.text, settings.retry_after_s
    row.allowed, row.ends_at = list(settings.allowed), settings.ends_at
    return row


def _planned(actor: User | None, sites: Sequence[Site], wanted: spec.Maintenance | None) -> list[Deployment]:
    """Return plans for the sites whose files change. Hosts are asked over SSH, so no transaction may be open."""
    live = live_revisions(sites)
    changes: list[tuple[Host, Change]] = []
    for site in sites:
        if site.pk not in live:
            raise ApplicationError(
                _("%s is not deployed, so Paddock cannot show a maintenance page. Deploy the site first.") % site,
                field="sites",
            )
        old = live[site.pk]
        new = _revision_with(actor, site, old, wanted)
        if new.pk != old.pk:
            changes.append((old.web_server.host, Change(site, old, new)))
    return changes_plan(DeploymentKind.MAINTENANCE, changes, actor) if changes else []


@contextmanager
def _or_discarded(plans: Sequence[Deployment]) -> Iterator[None]:
    """Context manager that cancels the given plans if its block, which confirms them, raises an exception."""
    try:
        yield
    except Exception:
        rows = Deployment.objects.filter(pk__in=[plan.pk for plan in plans], status=DeploymentStatus.PLANNED)
        rows.update(status=DeploymentStatus.CANCELLED, finished_at=timezone.now())
        raise


def _confirm(actor: User | None, plans: Sequence[Deployment]) -> None:
    if not plans:
        return
    if actor is None:
        deployments_confirm_themselves(plans)
    else:
        deployment_confirm(actor=actor, deployment=plans[0])


def _revision_with(actor: User | None, site: Site, live: Revision, wanted: spec.Maintenance | None) -> Revision:
    """Return a revision like the live one with the `wanted` maintenance page, or without a page for None."""
    if PinnedFile.objects.filter(site=site, web_server=live.web_server).exists():
        raise Conflict(
            _("%s has adopted files, which Paddock does not change. Choose Manage again on the drift page first.")
            % site
        )
    changed = replace(spec_of(live), maintenance=wanted)
    try:
        files = render(changed, web_server_spec_for(site, live.web_server, changed))
    except NotExpressible as error:
        raise ApplicationError(f"{site}: {error.message}", field=error.field.split("/")[-1]) from error
    records = records_of(live.files)
    for record in blobs_keep({site.pk: files})[site.pk]:
        records[record.path] = record
    json = cast(dict[str, object], spec.to_json(changed))
    return revision_of_records(actor, site, live.web_server, json, list(records.values()))
