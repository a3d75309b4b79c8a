"""Convert a stored host to the data that panel/remote needs to connect."""

from __future__ import annotations

from django.conf import settings

from agents.protocol import EngineControl
from panel.core.errors import Conflict
from panel.hosts.authorities import host_authorities
from panel.hosts.models import Connection, Host, HostStatus, WebServer
from panel.remote.target import Target


def target_for(host: Host) -> Target:
    """Return the connection data of a host. Raises Conflict if its host key changed, so that nothing is sent to the
    host until an administrator has decided.
    """
    if host.connection == Connection.LOCAL:
        return Target(name=host.name, kind="local", folder=settings.LOCAL_HOST_ROOT / "agent")
    if host.status == HostStatus.KEY_CHANGED:
        raise Conflict(
            f"The host key of {host.name} changed. Compare the new fingerprint with the fingerprint on the host, "
            "and confirm the key first."
        )
    return ssh_target(host)


def ssh_target(host: Host, *, is_bastion: bool = False) -> Target:
    """Return the connection data of a host over SSH, whatever its status, including the connection data of its
    bastions.

    Each bastion has a pinned key, so nothing is sent to a bastion whose key changed. `is_bastion`: the host is itself
    used as a bastion, so it must forward ports.
    """
    return Target(
        name=host.name,
        kind="ssh",
        address=host.address,
        port=host.port,
        username=host.username,
        private_key=host.private_key,
        password=host.password,
        sudo=host.use_sudo,
        sudo_password=host.sudo_password,
        host_key=host.host_key,
        authorities=host_authorities(),
        authority_key=host.authority.private_key if host.authority else "",
        forwards=is_bastion,
        via=ssh_target(host.bastion, is_bastion=True) if host.bastion else None,
    )


def engine_control(web_server: WebServer) -> EngineControl:
    """Return the EngineControl of a web server: the data with which the agent tests, starts, reloads and stops it."""
    paths = web_server.paths
    return EngineControl(
        engine=web_server.engine,
        binary=paths["binary"],
        prefix=paths.get("prefix") or paths["config_root"],
        main_config=paths["main_config"],
        config_root=paths["config_root"],
        pid_file=paths["pid_file"],
        control=web_server.control,
        unit=web_server.unit,
    )
