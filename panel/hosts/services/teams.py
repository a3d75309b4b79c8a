"""Assign hosts to teams: only these teams see the hosts and put sites on them."""

from __future__ import annotations

from collections.abc import Collection

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.models import version_bump
from panel.hosts.models import Host

_NAMED = 5


@transaction.atomic
def host_teams_set(*, actor: User, host: Host, teams: Collection[Team], expected_version: int | None = None) -> Host:
    """Assign a host to teams; without teams, every team may use the host.

    Raises PermissionDenied, Conflict, and ValidationError if a site of another team is on the host.
    """
    require(actor, Action.ADMINISTER)
    Host.objects.select_for_update().get(pk=host.pk)
    before = _slugs(list(host.teams.order_by("slug")))
    if _slugs(teams) == before:
        return host
    if teams:
        _refuse_other_teams_sites(host, teams)
    version_bump(host, expected_version)
    host.teams.set(teams)
    audit_record(
        actor=actor, action="host.teams", target=host, before={"teams": before}, after={"teams": _slugs(teams)}
    )
    return host


def _slugs(teams: Collection[Team]) -> list[str]:
    return sorted(team.slug for team in teams)


def _refuse_other_teams_sites(host: Host, teams: Collection[Team]) -> None:
    placed = host.web_servers.filter(sites__isnull=False).order_by("sites__name")
    keys = {team.pk for team in teams}
    found = placed.values_list("sites__name", "sites__team__name", "sites__team")
    foreign = [f"{name} ({team})" for name, team, key in found if key not in keys]
    if foreign:
        more = _(" and %d more") % (len(foreign) - _NAMED) if len(foreign) > _NAMED else ""
        raise ValidationError(
            {
                "teams": _(
                    "Sites of other teams are on this host: %(sites)s. Move these sites first, or add their teams."
                )
                % {"sites": ", ".join(foreign[:_NAMED]) + more}
            }
        )
