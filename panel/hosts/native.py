"""Install web servers whose main configuration the panel writes: gallop, and a private nginx.

The program of gallop is uploaded if it is missing. The private nginx is for the panel's machine, if the panel's account
cannot write the configuration of the distribution's nginx.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, cast
from uuid import uuid4

from django.conf import settings

from agents.protocol import ApplyRequest, EngineControl, FileChange, plain
from panel import env
from panel.core.errors import ApplicationError
from panel.hosts import programs
from panel.hosts.models import Connection, Engine, Host, Layout, WebServer
from panel.hosts.services.web_servers import native_web_server_of, web_server_create, web_server_update
from panel.hosts.targets import engine_control
from panel.remote.pool import Session
from panel.rendering import render_main
from panel.rendering.spec import WebServerSpec

UPLOAD_TIMEOUT_S = 120.0
FOLDER_MODE = 0o755  # workers must be able to enter them
# Account of workers of a server started by root. It exists on every distribution and owns nothing.
UNPRIVILEGED = "nobody"


def install_gallop(host: Host, agent: Session) -> tuple[WebServer, dict[str, object]]:
    """Install and start gallop on a host. Return (web server, the agent's ApplyResult as a dict). A repeated call
    changes nothing. Raises ApplicationError or RemoteError.
    """
    known = native_web_server_of(host)
    paths = known.paths if known else _paths(host, agent)
    control = engine_control(known) if known else _control(Engine.NATIVE, paths)
    version, modules = _install_program(host, agent, control)
    result = _applied(host, agent, paths, control)
    if known is None:
        known = web_server_create(
            actor=None,
            host=host,
            engine=Engine.NATIVE,
            paths=paths,
            version=version,
            modules=modules,
            layout=Layout.CONF_D,
            manages_main_config=True,
        )
    elif (known.version, known.modules) != (version, modules):
        web_server_update(actor=None, web_server=known, version=version, modules=modules)
    return known, result


def install_private_nginx(host: Host, agent: Session) -> WebServer | None:
    """Set up a private nginx: the distribution's program, with configuration, logs and pid file below the panel's
    folder. Return the web server; None if the host has no nginx.

    For the panel's machine, if the panel does not run as root. A repeated call changes nothing. Raises ApplicationError
    or RemoteError.
    """
    known = host.web_servers.filter(engine=Engine.NGINX, manages_main_config=True).first()
    system = host.web_servers.filter(engine=Engine.NGINX, label="default", manages_main_config=False).first()
    if known is None and system is None:
        return None
    source = known or system
    assert source is not None
    base = str(settings.LOCAL_HOST_ROOT / "nginx")
    paths = known.paths if known else _below(base, source.paths["binary"], "nginx")
    _applied(host, agent, paths, engine_control(known) if known else _control(Engine.NGINX, paths))
    return known or web_server_create(
        actor=None,
        host=host,
        engine=Engine.NGINX,
        label="private",
        paths=paths,
        version=source.version,
        modules=source.modules,
        layout=Layout.CONF_D,
        manages_main_config=True,
        is_running=True,
    )


def _control(engine: str, paths: dict[str, str]) -> EngineControl:
    names = ("binary", "prefix", "main_config", "config_root", "pid_file")
    return EngineControl(engine=engine, **{name: paths[name] for name in names})


def _applied(host: Host, agent: Session, paths: dict[str, str], control: EngineControl) -> dict[str, object]:
    """Write the main configuration and start the server in one transaction of the agent; return the agent's result."""
    request = _main_configuration(host, agent, paths, control)
    result = agent.call("apply", plain(request), timeout=UPLOAD_TIMEOUT_S)
    if result["outcome"] not in ("applied", "unchanged"):
        name = Engine(control.engine).label
        raise ApplicationError(f"{name} is not running on {host.name}: {result['error']}", code="install_failed")
    return result


def _paths(host: Host, agent: Session) -> dict[str, str]:
    """Return the paths for gallop on a host. They are below the folder that the panel or the host sets for gallop.
    Without such a folder, they are system folders if the agent runs as root, else folders below the account's home
    folder.
    """
    facts = agent.call("facts")
    if host.connection == Connection.LOCAL:
        base = str(settings.LOCAL_HOST_ROOT / "gallop")
    elif facts["gallop_base"]:
        base = facts["gallop_base"]
    elif agent.identity["uid"] == 0:
        return {
            "binary": "/usr/local/lib/paddock/gallop",
            "prefix": "/var/lib/gallop",
            "main_config": "/etc/gallop/gallop.conf",
            "config_root": "/etc/gallop",
            "log_dir": "/var/log/gallop",
            "pid_file": "/run/gallop.pid",
        }
    else:
        base = f"{facts['home']}/.local/share/paddock/gallop"
    return _below(base, f"{base}/bin/gallop", "gallop")


def _below(base: str, binary: str, name: str) -> dict[str, str]:
    return {
        "binary": binary,
        "prefix": base,
        "main_config": f"{base}/conf/{name}.conf",
        "config_root": f"{base}/conf",
        "log_dir": f"{base}/log",
        "pid_file": f"{base}/run/{name}.pid",
    }


def _install_program(host: Host, agent: Session, control: EngineControl) -> tuple[str, list[str]]:
    """Upload the bundled gallop if the host has another version or none; a running gallop switches to the new program.
    Return its version and the names of its optional features.
    """
    uploaded = programs.upload(host, agent, settings.GALLOP_BINARY, "gallop", "PADDOCK_GALLOP")
    args = {**uploaded, "path": control.binary, "engine": plain(control)}
    result = agent.call("install", args, timeout=UPLOAD_TIMEOUT_S)
    said = str(result["version"])
    version = said.rpartition("/")[2].split()[0][:40] if "/" in said else said[:40]
    return version, sorted(str(name) for name in result.get("modules", []))


def _main_configuration(host: Host, agent: Session, paths: dict[str, str], control: EngineControl) -> ApplyRequest:
    engine = cast(Any, control.engine)
    spec = WebServerSpec(engine=engine, layout="conf_d", config_root=paths["config_root"], log_dir=paths["log_dir"])
    temporary = f"{paths['prefix']}/temp"
    rendered = render_main(
        spec, user=_worker_account(host, agent, control.engine), pid_file=paths["pid_file"], temp_dir=temporary
    )
    folders = [
        f"{paths['config_root']}/conf.d",
        paths["log_dir"],
        temporary,
        str(PurePosixPath(paths["pid_file"]).parent),
    ]
    files = [
        FileChange(path, "directory", mode=FOLDER_MODE)
        for path in dict.fromkeys([paths["prefix"], *folders])
        if path != "/run"
    ]
    files += [FileChange(item.path, "put", item.text, item.mode) for item in rendered]
    return ApplyRequest(
        transaction=f"main-{control.engine}-{uuid4().hex}",
        roots=_roots(paths),
        files=files,
        engines=[control],
    )


def _worker_account(host: Host, agent: Session, engine: str) -> str:
    """Return the account for a server's worker processes if root starts the server; "" if the server chooses the
    account. Raises ApplicationError if the account cannot access the sites on the panel's machine.
    """
    if agent.identity["uid"] != 0:
        return ""
    if host.connection == Connection.LOCAL and (shut := env.shut_folder(settings.LOCAL_HOST_ROOT)):
        raise ApplicationError(
            f"The workers of {Engine(engine).label} run as {UNPRIVILEGED}, which cannot enter {shut}, so they could "
            "serve no site. Set PADDOCK_LOCAL_HOST_FOLDER to a folder that every account can enter, such as "
            f"/var/lib/paddock/host, or let every account enter {shut}: chmod o+x {shut}",
            code="folder_is_private",
        )
    return UNPRIVILEGED if engine == Engine.NATIVE else ""


def _roots(paths: dict[str, str]) -> list[str]:
    """Return the parent folders of a web server's folders, because the agent may have to create the
    folders themselves.
    """
    own = (paths["config_root"], paths["prefix"], paths["log_dir"])
    return sorted({str(PurePosixPath(path).parent) for path in own})
