"""Alerts about certificates of sites: failed orders, expired, revoked or wrong certificates, and forbidden renewals."""

from __future__ import annotations

import datetime as dt

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.alerts.kinds import Alert
from panel.alerts.presence import found_in
from panel.certificates.models import AutomaticCertificate, CertificateWatch
from panel.certificates.selectors import automatic_visible
from panel.deployments.models import DEPLOYED, SiteState
from panel.websites.certificates import EXPIRY_STEPS, expiry_step
from panel.websites.models import Certificate, CertificateSource
from panel.websites.selectors import CERTIFICATE_IS_USED

SHOWN = 3  # problems shown for one site
SHARING = dt.timedelta(minutes=30)
# Programs on hosts, and orders, usually renew 30 days before the end.
_RENEWED = Q(source=CertificateSource.HOST) | Q(automatic__isnull=False)
_MOST_DAYS_RENEWED = EXPIRY_STEPS[1]
EXPIRY_NOTICE = dt.timedelta(days=EXPIRY_STEPS[0])
REVOCATIONS_NOTICE = dt.timedelta(days=3)  # authorities publish lists for a day to a few weeks


def _faulty() -> QuerySet[Certificate]:
    return Certificate.objects.filter(faults__isnull=False).exclude(faults=[])


def _live(**due: dt.datetime) -> QuerySet[SiteState]:
    """Select the SiteState rows of deployed sites that match `due`: Django field lookups with a time."""
    return SiteState.objects.filter(status__in=DEPLOYED, **due)


@found_in(lambda hour: AutomaticCertificate.objects.exclude(problem=""))
def order_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for automatic certificates whose last order failed."""
    failed = automatic_visible(user).exclude(problem="").order_by("site__name")
    rows = failed.prefetch_related(None).select_related(None).select_related("site")
    return [
        Alert(
            "failed",
            _("Certificate not issued"),
            "certificate",
            row.site.name,
            row.problem.split("\n")[0],
            reverse("certificates:site", args=[row.site.name]),
            row.updated_at,
        )
        for row in rows.only("problem", "updated_at", "site__name")[:most]
    ]


@found_in(lambda hour: Certificate.objects.filter(_due(hour.ends)))
def certificate_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for certificates of sites: revoked certificates, and those that expire soon and are not renewed in
    time.
    An alert is repeated at each of EXPIRY_STEPS (days before expiry).
    """
    now = timezone.now()
    in_time = Q(revoked_at=None, not_after__gt=now, automatic__problem="", automatic__next_at__gt=now)
    used = visible(Certificate.objects.filter(_due(now), CERTIFICATE_IS_USED).exclude(in_time), user)
    columns = ("name", "names", "not_before", "not_after", "revoked_at", "source", "automatic__id")
    rows = used.select_related("automatic").only(*columns).order_by("not_after")[:most]
    return [_expiry_alert(row, _expiry_step(row, now)) for row in rows]


def _due(now: dt.datetime) -> Q:
    """Return a query condition for certificates that are revoked, expired, or have reached one of EXPIRY_STEPS (days
    before expiry). The condition agrees with the function `expiry_step` of websites.certificates.
    """
    found = Q(revoked_at__isnull=False) | Q(not_after__lte=now)
    for days in EXPIRY_STEPS:
        left = dt.timedelta(days=days)
        reached = Q(not_after__lte=now + left, not_before__lte=F("not_after") - 3 * left)
        found |= reached & ~_RENEWED if days > _MOST_DAYS_RENEWED else reached
    return found


def _expiry_alert(row: Certificate, step: int) -> Alert:
    return Alert(
        "refused" if row.revoked_at else "expiring" if step else "expired",
        _("Revoked") if row.revoked_at else expiry_label(step) if step else _("Expired"),
        "certificate",
        row.name,
        ", ".join(row.names[:3]),
        reverse("websites:certificate", args=[row.name]),
        row.not_after,
        step=str(step or ""),
    )


def _expiry_step(row: Certificate, now: dt.datetime) -> int:
    """Return the step in EXPIRY_STEPS (days before expiry) that a certificate has reached; 0 if revoked or expired."""
    if row.revoked_at:
        return 0
    is_renewed = row.source == CertificateSource.HOST or hasattr(row, "automatic")
    most = _MOST_DAYS_RENEWED if is_renewed else EXPIRY_STEPS[0]
    return expiry_step(row.not_before, row.not_after, now, most=most) or 0


def expiry_label(days: int) -> str:
    return _("Expires within a day") if days == 1 else _("Expires within %d days") % days


@found_in(lambda hour: _faulty())
def fault_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for certificates of sites: certificates that browsers refuse although they have not expired."""
    rows = visible(_faulty().filter(CERTIFICATE_IS_USED), user).only("name", "faults")
    return [
        Alert(
            "different",
            _("Refused by browsers"),
            "certificate",
            row.name,
            " ".join(row.fault_words),
            reverse("websites:certificate", args=[row.name]),
        )
        for row in rows.order_by("name")[:most]
    ]


@found_in(lambda hour: CertificateWatch.objects.filter(problems_since__isnull=False))
def presented_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for live sites that present a wrong certificate.

    A certificate is wrong if it is not the deployed one, or not valid for a domain name of the site.
    """
    rows = _watched(user).filter(problems_since__isnull=False).order_by("problems_since")
    return [
        Alert(
            "failing",
            _("Wrong certificate"),
            "site",
            row.site.name,
            " ".join(f"{item['name']} ({item['listener']}): {item['problem']}" for item in row.problems[:SHOWN]),
            reverse("websites:tls", args=[row.site.name]),
            row.problems_since,
        )
        for row in rows[:most]
    ]


@found_in(lambda hour: CertificateWatch.objects.exclude(forbidden=[]))
def permission_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for sites with automatic certificates if CAA records forbid the next renewal."""
    rows = _watched(user).filter(site__automatic__isnull=False).exclude(forbidden=[])
    return [
        Alert(
            "refused",
            _("Renewal forbidden by CAA records"),
            "site",
            row.site.name,
            " ".join(row.forbidden[:SHOWN]),
            reverse("certificates:site", args=[row.site.name]),
            row.site.automatic.next_at,
        )
        for row in rows.order_by("site__name")[:most]
    ]


def _watched(user: User) -> QuerySet[CertificateWatch]:
    rows = visible(CertificateWatch.objects.all(), user, team_path="site__team")
    return rows.filter(site__state__status__in=DEPLOYED).select_related("site__automatic")


@found_in(lambda hour: _live(revision__certificate_ends_at__lt=hour.ends + EXPIRY_NOTICE))
def live_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for live sites whose certificate expires soon, although their draft has a later certificate."""
    now = timezone.now()
    due = _live(revision__certificate_ends_at__lt=now + EXPIRY_NOTICE)
    # Automatic renewals are deployed within minutes; their failures have alerts of their own.
    rows = visible(due.exclude(site__automatic__problem=""), user, team_path="site__team")
    # `certificate_alerts` reports a certificate that the draft uses too; one that was renewed for another site
    # reaches this one within minutes.
    known = Q(not_after=OuterRef("revision__certificate_ends_at")) | Q(automatic__seen_at__gt=now - SHARING)
    own = Q(blocks__site=OuterRef("site")) | Q(stream_servers__site=OuterRef("site"))
    rows = rows.exclude(Exists(Certificate.objects.filter(known, own)))
    rows = rows.order_by("revision__certificate_ends_at").select_related("site", "revision")
    found = []
    for state in rows.only("site__name", "revision__certificate_ends_at")[:most]:
        assert state.revision is not None and state.revision.certificate_ends_at is not None
        name, ends_at = state.site.name, state.revision.certificate_ends_at
        step = next((days for days in reversed(EXPIRY_STEPS) if ends_at < now + dt.timedelta(days=days)), None)
        is_over = ends_at <= now
        found.append(
            Alert(
                "expired" if is_over else "expiring",
                _("Expired") if is_over else expiry_label(step or EXPIRY_STEPS[0]),
                "site",
                name,
                _("Visitors still get the earlier certificate. Deploy the site to use the certificate in its draft."),
                reverse("websites:detail", args=[name]),
                ends_at,
                step="" if is_over else str(step),
            )
        )
    return found


@found_in(lambda hour: _live(revision__revocations_end_at__lt=hour.ends + REVOCATIONS_NOTICE))
def revocation_alerts(user: User, most: int) -> list[Alert]:
    """Return alerts for live sites whose list of revoked client certificates has expired or expires soon.

    After the expiry, a site refuses every client that must show a certificate.
    """
    now = timezone.now()
    due = _live(revision__revocations_end_at__lt=now + REVOCATIONS_NOTICE)
    rows = visible(due, user, team_path="site__team").select_related("site", "revision")
    return [_revocation_alert(state, now) for state in rows.order_by("revision__revocations_end_at")[:most]]


def _revocation_alert(state: SiteState, now: dt.datetime) -> Alert:
    assert state.revision is not None and state.revision.revocations_end_at is not None
    ends_at = state.revision.revocations_end_at
    is_over = ends_at <= now
    words = _(
        "The revocation list of the site expired, so the site refuses every client that must present a certificate."
    )
    soon = _(
        "The revocation list of the site expires soon. From then on, the site refuses every "
        "client that must present a certificate."
    )
    return Alert(
        "expired" if is_over else "expiring",
        _("Revocation list expired") if is_over else _("Revocation list expires"),
        "site",
        state.site.name,
        (words if is_over else soon)
        + " "
        + _("Paste a newer revocation list in the site's server block, and deploy the site."),
        reverse("websites:blocks", args=[state.site.name]),
        ends_at,
    )
