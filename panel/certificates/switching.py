"""Deployment of an issued certificate to the listeners of its site, and restoring of the previous certificate."""

from __future__ import annotations

import time
from itertools import chain, count
from typing import Any

from panel.accounts.models import User
from panel.certificates import challenge_files, handshakes, keys, limits, sharing
from panel.certificates.choices import KeyType
from panel.certificates.listeners import exact_names, listeners_of, site_names, wildcard_names
from panel.certificates.models import AutomaticCertificate, Order
from panel.core.claims import Attempt
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.certificates.selectors import was_rolled_back_together
from panel.deployments.certificates.services import revision_renewed, revision_restore
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment, DeploymentStatus, Revision
from panel.deployments.planning.selectors import live_revision
from panel.deployments.planning.services import deployment_confirm, deployment_plan
from panel.deployments.revisions.rendered import spec_of
from panel.deployments.rollback.services import draft_restore
from panel.hosts.models import Engine, WebServer
from panel.rendering.nginx.scope import Dialect
from panel.rendering.readers.engines import NGINX_SYNTAX
from panel.websites import freeze
from panel.websites.models import Certificate, ServerBlock, Site
from panel.websites.services import block_update, certificate_issue
from panel.websites.web_server_specs import web_server_spec

MOST_NAMES = 100
POLL_S = 0.3
BUSY_S = 3.0
WAIT_S = 300.0


def names_of(automatic: AutomaticCertificate, live: Revision | None) -> list[str]:
    """Return the domain names of the live site, to order a certificate for these names.

    Raises ApplicationError if the site has no domain name, or more names than a certificate can have.
    """
    site = automatic.site
    names = site_names(spec_of(live), wildcards=automatic.dns is not None) if live is not None else []
    most = limits.most_names(automatic.account.issuer, automatic.profile, MOST_NAMES)
    if not names:
        raise ApplicationError(
            f"{site} has no exact domain name. Add a domain name to a server block, then deploy the site."
        )
    if len(names) > most:
        raise ApplicationError(
            f"{site} has {len(names)} domain names, but a certificate can have at most {most}. "
            "Remove some names, or split the site."
        )
    return names


def certificate_name(site: Site) -> str:
    """Return an unused name for the site's certificate. It is part of the names of the files on the host."""
    stem = f"auto-{site.name}"[:60].rstrip("-")
    taken = set(Certificate.objects.filter(name__startswith=stem).values_list("name", flat=True))
    return next(name for name in chain((stem,), (f"{stem}-{n}" for n in count(2))) if name not in taken)


def key_for(automatic: AutomaticCertificate) -> str:
    """Return a new key for the next certificate, or the key in use if renewals keep it.
    A revoked certificate's key is not kept, because others may know it.
    """
    certificate = automatic.certificate
    if automatic.reuse_key and certificate is not None and certificate.revoked_at is None:
        return certificate.private_key_pem
    return keys.key_make(KeyType(automatic.key_type))


def supports_http3(web_server: WebServer) -> bool:
    if web_server.engine in NGINX_SYNTAX:
        return Dialect.of(web_server_spec(web_server)).http3
    return web_server.engine == Engine.OPENLITESPEED


def draft_deploy(actor: User, site: Site) -> Deployment:
    """Queue a deployment of the site's draft as it is."""
    (plan,) = deployment_plan(actor=actor, sites=[site])
    deployment_confirm(actor=actor, deployment=plan)
    return plan


def first_deploy(actor: User, order: Order) -> Deployment:
    """Give the site's server blocks their certificate, TLS listeners and redirect, and queue a deployment."""
    automatic = order.automatic
    for block in automatic.site.blocks.prefetch_related("listens", "names"):
        names = tuple(name.name for name in block.names.all())
        if exact_names(names) or (automatic.dns_id and wildcard_names(names)):
            _secure(actor, automatic, block)
    return draft_deploy(actor, automatic.site)


def _secure(actor: User, automatic: AutomaticCertificate, block: ServerBlock) -> None:
    rows = [
        {name: getattr(row, name) for name in ("address", "port", "tls", "http2", "http3", "default_server")}
        for row in block.listens.all()
    ]
    values: dict[str, Any] = {"certificate": automatic.certificate}
    if not any(row["tls"] for row in rows):
        assert automatic.site.web_server is not None
        http3 = automatic.http3 and supports_http3(automatic.site.web_server)
        secure = {"port": automatic.https_port, "tls": True, "http2": True, "http3": http3}
        rows += [row | secure for row in list({row["address"]: row for row in rows}.values())]
        values["redirect_to_https"] = True
    if automatic.hsts_max_age_s is not None and block.hsts_max_age_s is None:
        values["hsts_max_age_s"] = automatic.hsts_max_age_s
    if block.certificate != automatic.certificate or len(values) > 1:
        block_update(actor=actor, block=block, listens=rows, **values)


def waited(deployment: Deployment | None) -> str:
    """Wait until the deployment has ended, and execute it if no worker does; return "" or the reason of its failure.
    Raises Conflict if the deployment has not ended within WAIT_S; the deployment may still succeed.
    """
    if deployment is None:
        return "The deployment of the certificate was deleted. Order the certificate again."
    deadline = time.monotonic() + WAIT_S
    while not deployment.is_finished:
        attempt = deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
        if deployment.is_finished:
            break
        if time.monotonic() > deadline:
            raise Conflict(f"{deployment} has not ended yet.")
        time.sleep(BUSY_S if attempt == Attempt.BUSY else POLL_S)
    return "" if deployment.status == DeploymentStatus.SUCCEEDED else deployment.error or str(deployment)


def is_deployed(order: Order) -> bool:
    """Return whether the renewed certificate is live. False after a deployment of several sites was rolled back: the
    certificate is then deployed alone.

    Raises ApplicationError if the web server rejected the certificate. Raises Conflict if the deployment failed
    otherwise, for example because the host was not reached; a later attempt may succeed.
    """
    deployment = order.deployment
    if deployment is not None:
        if not deployment.is_finished or was_rolled_back_together(deployment):
            return False
        if deployment.status == DeploymentStatus.ROLLED_BACK:
            raise ApplicationError(deployment.error)
        if deployment.status != DeploymentStatus.SUCCEEDED:
            Order.objects.filter(pk=order.pk).update(deployment=None)
            raise Conflict(deployment.error or str(deployment))
    site, certificate = order.automatic.site, order.automatic.certificate
    live = live_revision(site)
    if live is None or certificate is None:
        raise ApplicationError(f"{site} is no longer deployed. Deploy the site, then order the certificate again.")
    return revision_renewed(site, live, certificate).pk == live.pk


def waiting_words(order: Order) -> str:
    """Return a sentence about why a renewed certificate is not live yet."""
    if was_rolled_back_together(order.deployment):
        return "The deployment with other sites was rolled back. Paddock deploys this certificate alone."
    return "Waiting for the other renewals on the host."


def presented(order: Order) -> list[dict[str, str]]:
    """Check all listeners of the order's certificate; return [{"listener", "name", "problem"}] as `handshakes.problems`
    does.

    Raises ApplicationError if the site is no longer deployed.
    """
    site, certificate = order.automatic.site, order.automatic.certificate
    live = live_revision(site)
    if live is None or certificate is None:
        raise ApplicationError(f"{site} is no longer deployed. Deploy the site, then order the certificate again.")
    path = freeze.tls_files(site, live.web_server, certificate).certificate_path
    address = challenge_files.host_address(live.web_server.host)
    found = listeners_of(spec_of(live), path, address, wildcards=order.automatic.dns_id is not None)
    if not found:
        return [
            {"listener": str(site), "name": "", "problem": "no TLS listener of the live version uses the certificate"}
        ]
    through = challenge_files.through(live.web_server.host)
    return handshakes.problems(found, certificate.certificate_pem, through)


def wrong(seen: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the results of listeners that were checked and do not present the certificate."""
    return [item for item in seen if item["problem"] and not item["problem"].startswith(handshakes.NOT_CHECKED)]


def row_restore(order: Order) -> None:
    """Restore the certificate and key in the database to the values from before this order."""
    certificate = order.automatic.certificate
    if certificate is None or not order.previous_pem or certificate.certificate_pem != order.certificate_pem:
        return
    certificate_issue(
        actor=None,
        team=certificate.team,
        name=certificate.name,
        certificate=certificate,
        chain=order.previous_pem,
        key=order.previous_key_pem,
    )


def take_back(order: Order) -> None:
    """Restore the state before the order: the previous certificate, and a deployment of the revision that was live.

    If the order was for the first certificate of automatic HTTPS, the draft is restored too. Raises ApplicationError if
    the deployment fails.
    """
    row_restore(order)
    if order.previous is None:
        return
    waited_for = revision_restore(order.automatic.site, order.previous)
    if waited_for is not None and (problem := waited(waited_for)):
        raise ApplicationError(f"Paddock could not restore the previous configuration: {problem}")
    if order.automatic.seen_at is None and order.requested_by is not None:
        draft_restore(actor=order.requested_by, site=order.automatic.site, revision=order.previous)


def tokens_remove(order: Order) -> None:
    """Remove challenge files from the site's host, and from other hosts that serve the site's names. Raises
    RemoteError.
    """
    site = order.automatic.site
    live = live_revision(site)
    web_server = live.web_server if live is not None else site.web_server
    twins = [revision.web_server for _twin, revision in sharing.twins_of(site)]
    for one in (web_server, *twins) if order.tokens else ():
        if one is not None:
            challenge_files.remove(one, order.tokens)
