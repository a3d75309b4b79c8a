"""Job that writes a PHP-FPM pool to its host, or removes the pool from the host."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError
from panel.fpm.guards import refuse_arriving, refuse_used
from panel.fpm.models import FpmPool
from panel.fpm.observing import pools_read
from panel.fpm.reading import digest, server_of
from panel.fpm.selectors import pool_spec
from panel.hosts.models import Host, HostJob
from panel.hosts.services.hosts import refuse_paused
from panel.hosts.targets import target_for
from panel.remote import pool as connections
from panel.remote.pool import Session
from panel.rendering.fpm import pool_file

CHANGE_TIMEOUT_S = 120.0


def pool_job(job: HostJob) -> dict[str, object]:
    """Execute the job of a PHP-FPM pool; return its result. If it raises ApplicationError, the host has its former
    pool.
    """
    pool = FpmPool.objects.select_related("site__web_server", "host").filter(host=job.host, name=job.params["name"])
    found = pool.first()
    if found is None:
        raise ApplicationError(_("This PHP-FPM pool was deleted before the job began."))
    refuse_paused([found.host])
    refuse_arriving(found)
    with connections.session(target_for(found.host)) as agent:
        if job.params["action"] == "remove":
            return _removed(found, agent, replace=job.params["replace"])
        return _applied(found, agent, replace=job.params["replace"])


def _applied(pool: FpmPool, agent: Session, *, replace: bool) -> dict[str, object]:
    server = pool.site.web_server
    if server is None or server.host_id != pool.host_id:
        words = _("The site %(site)s is no longer on %(host)s. Remove the pool from this host, then create a new pool.")
        raise ApplicationError(words % {"site": pool.site.name, "host": pool.host.name})
    owner, group = server_of(pools_read(agent, [pool], server.paths["pid_file"]))
    if not owner and not pool.owner:
        words = _(
            "%s is not running, so Paddock cannot find the account of the web server. Start the web server, "
            "then apply the pool again."
        )
        raise ApplicationError(words % server)
    if owner:
        pool.owner, pool.group = owner, group
    text = pool_file(pool_spec(pool))
    _told(agent, pool, "put", replace, account=pool.account, text=text)
    FpmPool.objects.filter(pk=pool.pk).update(text=text, owner=pool.owner, group=pool.group)
    pools_read(agent, [pool])
    sockets_follow(pool.host, added=pool.socket)
    return {"socket": pool.socket}


def _removed(pool: FpmPool, agent: Session, *, replace: bool) -> dict[str, object]:
    refuse_used(pool)
    _told(agent, pool, "remove", replace)
    with transaction.atomic():
        FpmPool.objects.filter(pk=pool.pk).delete()
        sockets_follow(pool.host, removed=pool.socket)
    return {"removed": pool.name}


def _told(agent: Session, pool: FpmPool, action: str, replace: bool, **values: str) -> None:
    args: dict[str, object] = {"action": action, "version": pool.php_version, "name": pool.name, **values}
    if not replace:
        args["expected"] = [digest(pool.text)]
    agent.call("fpm", args, timeout=CHANGE_TIMEOUT_S)


def sockets_follow(host: Host, *, added: str = "", removed: str = "") -> None:
    """Update the list of PHP sockets in the host's stored facts: add the socket `added`, remove the socket `removed`.
    Forms of sites offer these sockets. The next check of the host replaces the list.
    """
    facts = Host.objects.values_list("facts", flat=True).get(pk=host.pk)
    known = {path for path in facts.get("php_sockets", ()) if isinstance(path, str)} - {removed}
    facts["php_sockets"] = sorted(known | {added} - {""})
    Host.objects.filter(pk=host.pk).update(facts=facts)
