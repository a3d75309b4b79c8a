"""PHP-FPM pools that move to another host with their sites (`deployments.pool_moves.PoolMoves`).

A pool stays on the old host, where other sites may use it, until an administrator removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict, words_of
from panel.deployments.models import Deployment
from panel.deployments.plan import PlanPool
from panel.fpm.execution import CHANGE_TIMEOUT_S, sockets_follow
from panel.fpm.models import FpmPool
from panel.fpm.observing import TIMEOUT_S
from panel.fpm.reading import Offer, cleaned, digest, offer_of, server_of
from panel.fpm.services import FIELDS, settings_of
from panel.hosts.models import Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool as connections
from panel.rendering.fpm import VERSION, PoolSpec, pool_file
from panel.websites.models import Site


@dataclass(frozen=True)
class _NewHost:
    """Report of a new host: its offer, user and group of its web server, and its file of each pool."""

    host: Host
    offer: Offer
    server: tuple[str, str]
    pools: Mapping[str, Mapping[str, object]]


class PoolMover:
    """Plan, create, and remove the pools of sites that move to another host."""

    def plan(self, actor: User, sites: Mapping[Site, Host], server: WebServer, version: str) -> list[PlanPool]:
        if version and not VERSION.fullmatch(version):
            raise ValidationError({"php_version": _("Enter a PHP version, for example 8.2.")})
        rows = list(FpmPool.objects.filter(site__in=list(sites)).select_related("site__team", "host"))
        moving = [row for row in rows if row.host_id == sites[row.site].pk]
        if not moving:
            return []
        there = {row.site_id: row for row in rows if row.host_id == server.host_id}
        written = {site for site, row in there.items() if row.text}
        _require_administrator(actor, [row for row in moving if row.site_id not in written])
        new = _asked(server, {row.name: version or row.php_version for row in moving}, there.values())
        pools = [(row, _planned(row, there.get(row.site_id), new, version or row.php_version)) for row in moving]
        _require_administrator(actor, [row for row, pool in pools if not pool.exists])
        return [pool for _row, pool in pools]

    def confirm(self, actor: User | None, deployment: Deployment) -> None:
        for pool in deployment.plan.pools:
            source = _row(pool, host__name=pool.old_host)
            there = _row(pool, host=deployment.host)
            sites = {line.id for line in deployment.plan.sites}
            is_same = source is not None and source.row_version == pool.version and source.site_id in sites
            if source is None or not is_same or (there is None and pool.exists):
                words = _("This plan is outdated: the PHP pool %s was changed after the plan was created. Plan again.")
                raise Conflict(words % pool.name)
            if not pool.exists:
                row = there or FpmPool(site=source.site, host=deployment.host, name=pool.name)
                for name in FIELDS:
                    setattr(row, name, getattr(pool, name))
                row.text, row.seen, row.seen_at, row.problem = "", {}, None, ""
                row.full_clean()
                row.save()
                audit_record(actor=actor, action="fpm_pool.create", target=row, after=settings_of(row))

    def begin(self, deployment: Deployment) -> None:
        for pool in deployment.plan.new_pools:
            values = {"text": _text(pool), "owner": pool.owner, "group": pool.group}
            FpmPool.objects.filter(host=deployment.host, name=pool.name).update(**values)

    def create(self, host: Host, pool: PlanPool) -> None:
        _call(host, pool, {"action": "put", "account": pool.account, "text": _text(pool), "expected": [digest("")]})

    def remove(self, host: Host, pool: PlanPool) -> None:
        _call(host, pool, {"action": "remove", "expected": [digest(_text(pool))]})

    def settle(self, deployment: Deployment, *, is_live: bool, left: Collection[str]) -> None:
        for pool in deployment.plan.new_pools:
            row = _row(pool, host=deployment.host)
            if row is None:
                continue
            if is_live:
                seen = {"digest": digest(row.text), "listens": True}  # the agent has proved both
                FpmPool.objects.filter(pk=row.pk).update(seen=seen, seen_at=timezone.now())
                sockets_follow(deployment.host, added=row.socket)
            elif pool.name not in left:
                audit_record(actor=None, action="fpm_pool.undo", target=row, before=settings_of(row))
                row.delete()


def _require_administrator(actor: User, created: Sequence[FpmPool]) -> None:
    """Raise ApplicationError if pools are to be created and the actor is not an administrator."""
    if created and not may(actor, Action.ADMINISTER):
        words = _(
            "The site %(site)s has the PHP-FPM pool %(pool)s on %(host)s. Only administrators create pools on other "
            "hosts. Ask an administrator to move the site."
        )
        old = created[0]
        raise _refusal(words % {"site": old.site.name, "pool": old.name, "host": old.host.name})


def _row(pool: PlanPool, **values: object) -> FpmPool | None:
    rows = FpmPool.objects.select_related("site__team", "host").filter(name=pool.name, **values)
    return rows.select_for_update(of=("self",)).first()


def _text(pool: PlanPool) -> str:
    limits = (pool.max_children, pool.memory_mb, pool.upload_mb)
    return pool_file(PoolSpec(pool.name, pool.account, pool.owner, pool.group, pool.folder, *limits))


def _call(host: Host, pool: PlanPool, values: Mapping[str, object]) -> None:
    _ask(host, {"version": pool.php_version, "name": pool.name, **values}, CHANGE_TIMEOUT_S)


def _ask(host: Host, args: dict[str, object], timeout_s: float) -> Mapping[str, object]:
    def call() -> Mapping[str, object]:
        with connections.session(target_for(host)) as agent:
            return agent.call("fpm", args, timeout=timeout_s)

    return connections.retry_lost(call)


def _asked(server: WebServer, versions: Mapping[str, str], there: Collection[FpmPool]) -> _NewHost:
    """Ask the new host for its PHP versions and accounts, and for its files of the pools in `versions`.

    `versions` maps the name of each pool to its PHP version. Raises RemoteError.
    """
    asked = {**versions, **{row.name: row.php_version for row in there if row.text}}
    pools = [{"name": name, "version": version} for name, version in asked.items()]
    args = {"action": "look", "accounts": True, "pools": pools, "pid_file": server.paths["pid_file"]}
    response = _ask(server.host, args, TIMEOUT_S)
    return _NewHost(
        server.host, offer_of(response), server_of(response), {name: cleaned(response, name) for name in asked}
    )


def _planned(old: FpmPool, there: FpmPool | None, new: _NewHost, version: str) -> PlanPool:
    """Return the pool that the move creates, or the pool `there` that an earlier move left on the new host."""
    found = new.pools[old.name]
    exists = there is not None and there.text != "" and found["digest"] == digest(there.text)
    if exists and there is not None:
        if not found["listens"]:
            words = _("No process listens on the socket of the PHP pool %(pool)s on %(host)s. Remove the pool first.")
            raise _refusal(words % {"pool": old.name, "host": new.host.name})
        row = there
    else:
        row = there or FpmPool(site=old.site, host=new.host, name=old.name)
        for name in FIELDS:
            setattr(row, name, getattr(old, name))
        row.php_version = version
        _require_possible(row, new)
        row.owner, row.group = new.server if new.server[0] else (old.owner, old.group)
    values = {name: getattr(row, name) for name in (*FIELDS, "owner", "group")}
    return PlanPool(
        old.site.name, old.name, new.host.name, old.host.name, version=old.row_version, exists=exists, **values
    )


def _require_possible(row: FpmPool, new: _NewHost) -> None:
    """Raise ApplicationError if the new host cannot have the pool, with what to do."""
    problem = _problem(row, new)
    if not problem:
        try:
            row.full_clean()
        except ValidationError as error:
            problem = words_of(error)
    if problem:
        words = _("The PHP pool %(pool)s cannot be created on %(host)s: %(problem)s")
        raise _refusal(words % {"pool": row.name, "host": new.host.name, "problem": problem})


def _problem(row: FpmPool, new: _NewHost) -> str:
    versions, version = new.offer.versions, row.php_version
    values = {"version": version, "found": ", ".join(versions), "account": row.account, "path": row.path}
    if not versions:
        return _("the host has no PHP-FPM. Install it: apt-get install php%(version)s-fpm") % values
    if version not in versions:
        words = _(
            "the host has no PHP-FPM %(version)s, but %(found)s. Enter one of these PHP versions for the move, or "
            "install it: apt-get install php%(version)s-fpm"
        )
        return words % values
    if not versions[version]:
        return _("php-fpm%(version)s does not run. Start it: systemctl start php%(version)s-fpm") % values
    if row.account not in new.offer.accounts:
        words = _(
            "the host has no account %(account)s that PHP can run as. Create it on the host: adduser "
            "--disabled-password %(account)s"
        )
        return words % values
    if FpmPool.objects.filter(host=new.host, name=row.name).exclude(site=row.site).exists():
        return _("another site has a pool of this name there. Remove that pool first.")
    if new.pools[row.name]["digest"]:
        return _("the host has a file %(path)s that Paddock did not write. Remove the file first.") % values
    return ""


def _refusal(words: str) -> ApplicationError:
    return ApplicationError(words, field="web_server", code="in_use")
