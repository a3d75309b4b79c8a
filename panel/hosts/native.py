"""Install web servers with a main configuration of the panel: gallop, whose program is uploaded if missing, and a
private nginx on the panel's machine, if the panel's account cannot write the distribution's configuration.
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
    """Install and start gallop on a host. Return (web server, the agent's ApplyResult as a dict). Idempotent. Raises
    ApplicationError or RemoteError.
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
    """Set up the distribution's nginx with configuration, logs and pid file below the panel's folder; return the web
    server, None without nginx.

    For the panel's machine, if the panel does not run as root. Idempotent. Raises ApplicationError or RemoteError.
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
    """Return the paths for gallop on a host: below the folder that the panel or the host sets for gallop, else in
    system folders if the agent runs as root, else in the account's home folder.
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
    """Upload the bundled gallop if it differs, and let a running server switch to it; return its version and the names
    of its optional features.
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
    """Return the account of a server's worker processes if root starts it; "" for the server's default. Raises
    ApplicationError if the account cannot access the sites on the panel's machine.
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
    """Return the parent folders of a web server's folders: the agent may create the folders in them."""
    own = (paths["config_root"], paths["prefix"], paths["log_dir"])
    return sorted({str(PurePosixPath(path).parent) for path in own})
