"""Selectors for hosts, their web servers and jobs. Users see hosts of their teams, and hosts of no team."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from django.db.models import Model, Q, QuerySet
from django.utils.translation import ngettext

from panel.accounts.models import User
from panel.accounts.permissions import team_keys
from panel.core.jobs import JobStatus
from panel.core.tags import tags_counted
from panel.hosts import by_hand
from panel.hosts.authorities import sign_in_line
from panel.hosts.models import Connection, Host, HostJob, WebServer
from panel.remote.keys import fingerprint, public_lines

M = TypeVar("M", bound=Model)


def hosts_visible(user: User) -> QuerySet[Host]:
    """Return the hosts that the user can see: those of the user's teams, and those that every team may use."""
    if not user.is_active:
        return Host.objects.none()
    if user.is_admin:
        return Host.objects.all()
    given = Host.teams.through._default_manager.all()
    own = given.filter(team__in=team_keys(user)).values("host")
    return Host.objects.filter(~Q(pk__in=given.values("host")) | Q(pk__in=own))


def web_servers_visible(user: User) -> QuerySet[WebServer]:
    return _of_visible_hosts(WebServer.objects.select_related("host", "state"), user)


def host_jobs_visible(user: User) -> QuerySet[HostJob]:
    return _of_visible_hosts(HostJob.objects.select_related("host", "requested_by"), user)


def _of_visible_hosts(rows: QuerySet[M], user: User) -> QuerySet[M]:
    return rows if user.is_admin and user.is_active else rows.filter(host__in=hosts_visible(user).values("pk"))


def busy_hosts(hosts: Iterable[Host]) -> set[int]:
    """Return the ids of the given hosts that have a queued or running host job."""
    rows = HostJob.objects.filter(host__in=list(hosts), status__in=(JobStatus.QUEUED, JobStatus.RUNNING))
    return set(rows.values_list("host_id", flat=True))


def host_tags(user: User) -> dict[str, int]:
    """Return {tag: number of hosts} for the hosts that the user can see."""
    return tags_counted(hosts_visible(user))


def tags_of_all_hosts() -> dict[str, int]:
    """Return {tag: number of hosts} for all hosts, for administrators' forms."""
    return tags_counted(Host.objects.all())


def host_with_secrets(name: str) -> Host | None:
    """Return the host with a name, secrets included, or None. For administrators only: permission is not checked."""
    return Host.objects.filter(name=name).first()


def hosts_over_ssh() -> QuerySet[Host]:
    """Return the hosts that Paddock reaches over SSH. Forms offer them as bastions.

    rules.py rejects a host's bastion if Paddock reaches the bastion through the host itself.
    """
    return Host.objects.filter(connection=Connection.SSH)


def pinned_fingerprint(host: Host) -> str:
    """Return the fingerprint (SHA256:...) of the trusted host key; "" if there is none."""
    return fingerprint(host.host_key) if host.host_key else ""


def public_key(host: Host) -> str:
    """Return the lines of authorized_keys that let Paddock sign in to the host: one for the host's authority, otherwise
    one for each stored private key. "" without an authority and a private key.
    """
    if host.authority is not None:
        return sign_in_line(host)
    if not host.private_key:
        return ""
    return public_lines(host.private_key, forwards=host.hosts_behind.exists())


def sign_in_command(host: Host) -> str:
    """Return the shell command that the host's user runs on the host to let Paddock sign in; "" if Paddock has neither
    a private key nor an authority for the host.
    """
    lines = public_key(host).splitlines()
    if not lines:
        return ""
    quoted = " ".join(f"'{line}'" for line in lines)
    return f"(umask 077; mkdir -p ~/.ssh; printf '\\n%s\\n' {quoted} >> ~/.ssh/authorized_keys)"


def sudo_command(host: Host) -> str:
    """Return the shell command that root runs on the host to let the host's user run the agent with sudo, without a
    password; "" if Paddock does not use sudo there, or has a sudo password.
    """
    if not host.use_sudo or host.sudo_password:
        return ""
    return f"(umask 227; echo '{by_hand.sudo_rule(host.username)}' > /etc/sudoers.d/paddock)"


def prepare_command(host: Host) -> str:
    """Return the shell command that root runs on the host instead of `sign_in_command` and `sudo_command`; "" if
    Paddock has neither a private key nor an authority for the host.

    The command also creates the account and prints the host's fingerprints.
    """
    lines = public_key(host).splitlines()
    return by_hand.prepare_line(host.username, lines, with_sudo=bool(sudo_command(host))) if lines else ""


def forwarding_command(host: Host) -> str:
    """Return the shell command that a bastion's user runs on the bastion to allow port forwarding with Paddock's key;
    "" if the host is not a bastion.
    """
    return by_hand.forwarding_line(public_key(host).splitlines()) if host.hosts_behind.exists() else ""


def offered_fingerprint(host: Host) -> str:
    """Return the fingerprint (SHA256:...) of the offered host key, which users must compare; "" if there is none."""
    return fingerprint(host.offered_host_key) if host.offered_host_key else ""


def sites_deployed(host: Host) -> list[str]:
    """Return the names of the sites on a host, sorted. A host with sites cannot be deleted."""
    return sorted(site.name for web_server in host.web_servers.all() for site in web_server.sites.all())


def host_losses(host: Host) -> list[str]:
    """Return phrases about the data that deleting the host would lose. Sites come first; they prevent the deletion."""
    losses = [f"the site {name}, which uses a web server of this host" for name in sites_deployed(host)]
    web_servers, deployments = host.web_servers.count(), host.deployments.count()
    if web_servers:
        words = ngettext(
            "Paddock's records of %d web server",
            "Paddock's records of %d web servers",
            web_servers,
        )
        losses.append(words % web_servers)
    if deployments:
        losses.append(
            ngettext(
                "the history of %d deployment on this host", "the history of %d deployments on this host", deployments
            )
            % deployments
        )
    return losses
