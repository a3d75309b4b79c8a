"""Combine queued deployments of one host into one transaction, with one test, and one reload per web server.

Twenty deployments of one host at the same time would otherwise reload its web server twenty times. If a transaction of
several deployments does not succeed, nothing of it stays on the host, and each deployment is carried out alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import uuid4

from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, OnSuccess
from panel.deployments.planning.changes import Change
from panel.deployments.planning.replacing import is_taking_over
from panel.hosts.models import Host

MOST = 20  # deployments of one transaction

Group = tuple[Deployment, ...]


def first_groups(rows: Sequence[Deployment]) -> dict[Host, Group]:
    """Return the deployments to carry out now, as one group for each host: its first deployment in `rows`, and the
    following deployments that can share a transaction with it.

    Sets `joined_as`, the id of the shared transaction, on the deployments of a group; the caller must save `joined_as`
    before it sends a transaction.
    """
    found: dict[Host, list[Deployment]] = defaultdict(list)
    closed: set[Host] = set()
    joinable = _joinable(rows)
    for row in rows:
        begun = found[row.host]
        if begun and (row.host in closed or not _joins(begun, row, joinable)):
            closed.add(row.host)  # a later one must not overtake this one
        else:
            begun.append(row)
    groups = {host: tuple(group) for host, group in found.items()}
    for group in groups.values():
        if group[0].started_at is None:
            token = uuid4() if len(group) > 1 else None
            for row in group:
                row.joined_as = token
    return groups


def _joins(group: Sequence[Deployment], row: Deployment, joinable: Mapping[int, int]) -> bool:
    """Return whether the deployment `row` can share one transaction with the deployments in `group`, which are for the
    same host.
    """
    first = group[0]
    if first.started_at is not None or row.started_at is not None:  # the host may know the transaction already
        return first.joined_as is not None and first.joined_as == row.joined_as
    if len(group) == MOST or not {first.pk, row.pk} <= joinable.keys() or joinable[first.pk] != joinable[row.pk]:
        return False
    return _places(row).isdisjoint(place for other in group for place in _places(other))


def _places(row: Deployment) -> set[object]:
    """Return one set with the ids of all sites and the paths of all site files that a deployment changes. Files that
    all sites of a web server share are left out.
    """
    return {site.id for site in row.plan.sites} | {file.path for file in row.plan.files if file.site}


def _joinable(rows: Sequence[Deployment]) -> dict[int, int]:
    """Return {deployment id: team id} for the deployments that can share a transaction with other deployments of the
    same team.

    Deployments of different teams never share a transaction, because its steps name all of its sites.
    """
    hosts = [row.host_id for row in rows]
    plain = [row for row in rows if hosts.count(row.host_id) > 1 and _is_plain(row)]
    if not plain:
        return {}
    items = DeploymentItem.objects.filter(deployment__in=plain).select_related("site", "revision", "previous")
    teams: dict[int, set[int]] = defaultdict(set)
    changes: dict[int, list[Change]] = defaultdict(list)
    for item in items.defer("revision__files", "previous__files"):
        teams[item.deployment_id].add(item.site.team_id)
        changes[item.deployment_id].append(Change(item.site, item.previous, item.revision))
    taking = is_taking_over([change for part in changes.values() for change in part])
    return {
        pk: next(iter(own))
        for pk, own in teams.items()
        if len(own) == 1 and taking.isdisjoint(change.site.pk for change in changes[pk])
    }


def _is_plain(row: Deployment) -> bool:
    """Return whether a deployment can share a transaction with others: it only writes files of sites to the host, has
    not started, waits for no other deployment, triggers no later change, and need not run alone.
    """
    return (
        row.kind == DeploymentKind.DEPLOY
        and row.on_success == OnSuccess.NOTHING
        and row.target_id is None
        and row.waits_for_id is None
        and row.started_at is None
        and not (row.runs_alone or row.anyway or row.plan.main_files)
    )
