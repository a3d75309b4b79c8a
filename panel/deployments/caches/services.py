"""Service that deletes a site's cached responses on request."""

from __future__ import annotations

from posixpath import dirname

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import spec_of
from panel.remote.client import Message
from panel.rendering import caching
from panel.websites import web_server_specs
from panel.websites.models import Site


def site_cache_empty(*, actor: User, site: Site) -> dict[str, int]:
    """Delete a site's cached responses; return {"files": number of deleted files, "bytes": their size}.

    Apache keeps the responses of all its sites in one folder, so the responses of the other sites are deleted too.
    Raises PermissionDenied and RemoteError. Raises ApplicationError if the site is not deployed or has no cache, or if
    its web server does not support purging.
    """
    require(actor, Action.DEPLOY, site.team)
    revision = live_revision(site)
    if revision is None:
        raise ApplicationError(f"{site} is not deployed, so no web server caches its responses.", field="site")
    web_server, spec = revision.web_server, web_server_specs.web_server_spec(revision.web_server)
    if not caching.can_be_cleared(web_server.engine):
        message = f"{web_server} cannot clear its cache on request. Cached responses expire on their own."
        raise ApplicationError(message, field="site")
    frozen = spec_of(revision)
    if not any(True for _ in caching.locations(frozen)):
        raise ApplicationError(f"No location of the live version of {site} uses response caching.", field="site")
    folders = caching.folders(frozen, spec)
    roots = sorted({dirname(folder) for folder in folders})
    found: Message = host_agent.emptied(web_server.host, folders, roots=roots)
    audit_record(actor=actor, action="site.cache_empty", target=site, after={"files": found["files"]})
    return {"files": int(found["files"]), "bytes": int(found["bytes"])}
