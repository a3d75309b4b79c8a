"""Services for PHP-FPM pools. Each change on a host is a job."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import Conflict
from panel.core.models import version_bump
from panel.fpm.guards import refuse_arriving, refuse_used
from panel.fpm.models import FpmPool
from panel.fpm.selectors import is_leaving
from panel.hosts.models import HostJob, HostJobKind
from panel.hosts.services.hosts import refuse_paused
from panel.hosts.services.jobs import UNFINISHED, host_job_request
from panel.websites.models import Site

FIELDS = ("php_version", "account", "folder", "max_children", "memory_mb", "upload_mb")


@transaction.atomic
def fpm_pool_create(*, actor: User, site: Site, **values: Any) -> HostJob:
    """Create the PHP-FPM pool of a site, and start the job that writes it to the host.

    `values`: php_version, account, folder, max_children, memory_mb, upload_mb. Raises PermissionDenied,
    ValidationError, and Conflict if the site already has a pool or is being deleted.
    """
    require(actor, Action.ADMINISTER)
    if site.web_server is None:
        raise ValidationError({"site": _("Choose a web server for %s first.") % site.name})
    if is_leaving(site):
        words = _("A deployment that deletes %s or moves it to another host is planned or running. Cancel it first.")
        raise Conflict(words % site.name)
    if FpmPool.objects.filter(site=site, host=site.web_server.host).exists():
        raise Conflict(_("%s already has a PHP-FPM pool. Change that pool.") % site.name)
    pool = FpmPool(site=site, host=site.web_server.host, name=f"paddock-{site.name}", **values)
    pool.full_clean()
    pool.save()
    audit_record(actor=actor, action="fpm_pool.create", target=pool, after=settings_of(pool))
    return _requested(actor, pool, "apply")


@transaction.atomic
def fpm_pool_update(*, actor: User, pool: FpmPool, expected_version: int | None = None, **values: Any) -> HostJob:
    """Change a PHP-FPM pool, and start the job that writes it to the host.

    The PHP version cannot change, because the pool's file and socket belong to one php-fpm. Raises PermissionDenied,
    ValidationError, and Conflict.
    """
    require(actor, Action.ADMINISTER)
    if values.get("php_version", pool.php_version) != pool.php_version:
        words = _("The PHP version of a pool cannot be changed. Remove the pool, then create it again.")
        raise ValidationError({"php_version": words})
    before = settings_of(pool)
    version_bump(pool, expected_version)
    for name, value in values.items():
        setattr(pool, name, value)
    pool.full_clean()
    pool.save(update_fields=FIELDS)
    audit_record(actor=actor, action="fpm_pool.update", target=pool, before=before, after=settings_of(pool))
    return _requested(actor, pool, "apply")


def fpm_pool_apply(*, actor: User, pool: FpmPool, replace: bool = False) -> HostJob:
    """Start the job that writes the pool to its host again. With `replace`, the job overwrites the pool's file even if
    somebody edited the file on the host.
    """
    require(actor, Action.ADMINISTER)
    return _requested(actor, pool, "apply", replace)


def fpm_pool_remove(*, actor: User, pool: FpmPool, replace: bool = False) -> HostJob:
    """Start the job that removes the pool from its host, and then from the panel. ApplicationError while a live site
    uses the pool.
    """
    require(actor, Action.ADMINISTER)
    refuse_used(pool)
    return _requested(actor, pool, "remove", replace)


@transaction.atomic
def fpm_pool_forget(*, actor: User, pool: FpmPool) -> None:
    """Delete a pool in the panel only; the pool remains on its host. Use this for a host that no longer exists."""
    require(actor, Action.ADMINISTER)
    refuse_arriving(pool)
    _refuse_running(pool)
    audit_record(actor=actor, action="fpm_pool.forget", target=pool, before=settings_of(pool))
    pool.delete()


def settings_of(pool: FpmPool) -> dict[str, object]:
    return {"site": pool.site.name, "host": pool.host.name, **{name: getattr(pool, name) for name in FIELDS}}


@transaction.atomic
def _requested(actor: User, pool: FpmPool, action: str, replace: bool = False) -> HostJob:
    refuse_arriving(pool)
    _refuse_running(pool)
    refuse_paused([pool.host])
    if action == "remove":
        audit_record(actor=actor, action="fpm_pool.remove", target=pool, before=settings_of(pool))
    params = {"name": pool.name, "action": action, "replace": replace}
    return host_job_request(actor=actor, host=pool.host, kind=HostJobKind.FPM_POOL, params=params)


def _refuse_running(pool: FpmPool) -> None:
    jobs = HostJob.objects.filter(host=pool.host, kind=HostJobKind.FPM_POOL, status__in=UNFINISHED)
    if jobs.filter(params__name=pool.name).exists():
        raise Conflict(_("A job is changing %s on its host. Wait until the job ends.") % pool.name)
