"""gallop on a host: its program uploaded when it is missing, its own main configuration, started."""

from __future__ import annotations

import hashlib
import platform
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from django.conf import settings

from agents.protocol import ApplyRequest, EngineControl, FileChange, plain
from panel.core.errors import ApplicationError
from panel.hosts.models import Connection, Engine, EngineInstall, Host, Layout
from panel.hosts.services.installs import install_create, install_update, native_install_of
from panel.hosts.targets import engine_control
from panel.remote.pool import Session
from panel.rendering import render_main
from panel.rendering.spec import InstallSpec

UPLOAD_TIMEOUT_S = 120.0
# Workers of a server that root starts. Present on every distribution, and owner of nothing.
UNPRIVILEGED = "nobody"


def install(host: Host, agent: Session) -> tuple[EngineInstall, dict[str, Any]]:
    """(the install, the agent's ApplyResult). Idempotent. Raises ApplicationError or RemoteError."""
    known = native_install_of(host)
    paths = known.paths if known else _paths(host, agent)
    version = _install_program(host, agent, paths["binary"])
    control = EngineControl(
        engine=Engine.NATIVE,
        **{name: paths[name] for name in ("binary", "prefix", "main_config", "config_root", "pid_file")},
    )
    request = _main_configuration(host, agent, paths, engine_control(known) if known else control)
    result = agent.call("apply", plain(request), timeout=UPLOAD_TIMEOUT_S)
    if result["outcome"] not in ("applied", "unchanged"):
        raise ApplicationError(f"gallop does not run on {host.name}: {result['error']}", code="install_failed")
    if known is None:
        known = install_create(
            actor=None,
            host=host,
            engine=Engine.NATIVE,
            paths=paths,
            version=version,
            layout=Layout.CONF_D,
            manages_main_config=True,
        )
    elif known.version != version:
        install_update(actor=None, install=known, version=version)
    return known, result


def _paths(host: Host, agent: Session) -> dict[str, str]:
    """Where it lives: the places of the system for root, below the panel's folder or the home folder otherwise."""
    if host.connection == Connection.LOCAL:
        base = str(settings.LOCAL_HOST_ROOT / "gallop")
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
        base = f"{agent.call('facts')['home']}/.local/share/paddock/gallop"
    return {
        "binary": f"{base}/bin/gallop",
        "prefix": base,
        "main_config": f"{base}/conf/gallop.conf",
        "config_root": f"{base}/conf",
        "log_dir": f"{base}/log",
        "pid_file": f"{base}/run/gallop.pid",
    }


def _install_program(host: Host, agent: Session, path: str) -> str:
    """Uploads the bundled program unless the host has it; its version."""
    program = settings.GALLOP_BINARY
    if not program.is_file():
        raise ApplicationError(
            f"The bundled gallop is not built: {program} is missing. Run `make build`, or name it by PADDOCK_GALLOP.",
            code="not_built",
        )
    machine = host.facts.get("machine") or platform.machine()
    if machine != platform.machine():
        raise ApplicationError(
            f"{host.name} is a {machine}; the bundled gallop is built for {platform.machine()}.", code="wrong_machine"
        )
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    source = agent.upload(program, f"gallop-{digest}")
    args = {"source": source, "sha256": digest, "path": path}
    said = str(agent.call("install", args, timeout=UPLOAD_TIMEOUT_S)["version"])
    return said.rpartition("/")[2].split()[0][:40] if "/" in said else said[:40]


def _main_configuration(host: Host, agent: Session, paths: dict[str, str], control: EngineControl) -> ApplyRequest:
    spec = InstallSpec(engine="native", layout="conf_d", config_root=paths["config_root"], log_dir=paths["log_dir"])
    temporary = f"{paths['prefix']}/temp"
    rendered = render_main(spec, user=_worker_account(host, agent), pid_file=paths["pid_file"], temp_dir=temporary)
    folders = [
        f"{paths['config_root']}/conf.d",
        paths["log_dir"],
        temporary,
        str(PurePosixPath(paths["pid_file"]).parent),
    ]
    files = [FileChange(path, "directory") for path in dict.fromkeys([paths["prefix"], *folders]) if path != "/run"]
    files += [FileChange(item.path, "put", item.text, item.mode) for item in rendered]
    return ApplyRequest(
        transaction=f"gallop-{uuid4().hex}",
        roots=_roots(paths),
        files=files,
        engines=[control],
    )


def _worker_account(host: Host, agent: Session) -> str:
    """Whom the workers of a server that root starts become: nobody, unless that account cannot reach the sites."""
    if agent.identity["uid"] != 0:
        return ""
    if host.connection == Connection.LOCAL:
        above = [settings.LOCAL_HOST_ROOT, *settings.LOCAL_HOST_ROOT.parents]
        if not all(folder.stat().st_mode & 0o001 for folder in above if folder.exists()):
            return "root"
    return UNPRIVILEGED


def _roots(paths: dict[str, str]) -> list[str]:
    """The parents of what is gallop's own: its folders themselves have to be made."""
    own = (paths["config_root"], paths["prefix"], paths["log_dir"])
    return sorted({str(PurePosixPath(path).parent) for path in own})
