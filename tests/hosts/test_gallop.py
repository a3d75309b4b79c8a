"""gallop on a host: installed, configured and started; a repetition changes nothing."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from agents.protocol import plain
from panel import env
from panel.accounts.models import User
from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostJobKind, WebServer
from panel.hosts.native import install_private_nginx
from panel.hosts.services import host_job_request, register_local_host
from panel.hosts.targets import engine_control, target_for
from panel.remote import pool
from tests.support.gallop import gallop_binary
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def here(settings: Any, server_root: Path) -> Iterator[Host]:
    settings.HOME = server_root
    settings.LOCAL_HOST_ROOT = server_root / "host"
    settings.GALLOP_BINARY = Path(gallop_binary())
    yield register_local_host()
    for pid_file in server_root.rglob("gallop.pid"):
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists())
    pool.close()


def web_server(host: Host, admin: User) -> HostJob:
    job = host_job_request(actor=admin, host=host, kind=HostJobKind.INSTALL_NATIVE)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    return job


def test_gallop_is_installed_and_runs(here: Host, admin: User) -> None:
    job = web_server(here, admin)
    assert job.status == JobStatus.SUCCEEDED, job.error
    server = WebServer.objects.get()
    assert (server.engine, server.manages_main_config, server.is_running) == ("native", True, True)
    assert server.version
    assert Path(server.paths["binary"]).stat().st_mode & 0o777 == 0o755
    pid = Path(server.paths["pid_file"]).read_text()
    again = web_server(here, admin)
    assert again.result["outcome"] == "unchanged"
    assert Path(server.paths["pid_file"]).read_text() == pid
    assert WebServer.objects.count() == 1


def test_gallop_files_are_private_and_workers_reach_temporary_files(here: Host, admin: User) -> None:
    """Root starts gallop, its workers are nobody: they reach the temporary files of uploads, and no other account can
    write the pid file or a log."""
    assert web_server(here, admin).status == JobStatus.SUCCEEDED
    paths = WebServer.objects.get().paths
    prefix = Path(paths["prefix"])
    folders = [prefix, prefix / "temp", Path(paths["log_dir"]), Path(paths["pid_file"]).parent]
    assert {str(folder): oct(folder.stat().st_mode & 0o777) for folder in folders} == {
        str(folder): "0o755" for folder in folders
    }
    site = Path(paths["config_root"]) / "conf.d" / "site.conf"
    site.write_text(f"server {{ listen 127.0.0.1:{free_port()}; root {prefix}; }}\n")
    os.kill(int(Path(paths["pid_file"]).read_text()), signal.SIGHUP)
    body = prefix / "temp" / "client_body"
    assert eventually(body.is_dir)
    assert body.stat().st_mode & 0o777 == 0o700
    for made in (Path(paths["pid_file"]), *Path(paths["log_dir"]).iterdir()):
        assert made.stat().st_mode & 0o777 == 0o644, made
    log = Path(paths["log_dir"]) / "error.log"
    log.unlink()
    os.kill(int(Path(paths["pid_file"]).read_text()), signal.SIGUSR1)  # opens its logs anew, as a daemon
    assert eventually(log.is_file)
    assert log.stat().st_mode & 0o777 == 0o644


def test_edited_gallop_main_file_is_restored(here: Host, admin: User) -> None:
    web_server(here, admin)
    main = Path(WebServer.objects.get().paths["main_config"])
    text = main.read_text()
    main.write_text(text + "# edited\n")
    assert web_server(here, admin).result["outcome"] == "applied"
    assert main.read_text() == text


def test_missing_gallop_binary_is_reported_with_remedy(here: Host, admin: User, settings: Any, tmp_path: Path) -> None:
    settings.GALLOP_BINARY = tmp_path / "gallop"
    job = web_server(here, admin)
    assert job.status == JobStatus.FAILED
    assert str(tmp_path / "gallop") in job.error
    assert not WebServer.objects.exists()


def test_gallop_binary_that_does_not_run_on_host_is_reported(
    here: Host, admin: User, settings: Any, tmp_path: Path
) -> None:
    broken = tmp_path / "gallop"
    broken.write_bytes(b"\x7fELF not really")
    settings.GALLOP_BINARY = broken
    job = web_server(here, admin)
    assert job.status == JobStatus.FAILED
    assert "does not run on this host" in job.error
    assert not WebServer.objects.exists()


def running_program(server: WebServer) -> str:
    return os.readlink(f"/proc/{Path(server.paths['pid_file']).read_text().strip()}/exe")


def test_newer_gallop_replaces_running_one(here: Host, admin: User, settings: Any, tmp_path: Path) -> None:
    web_server(here, admin)
    server = WebServer.objects.get()
    newer = tmp_path / "gallop"
    newer.write_bytes(Path(gallop_binary()).read_bytes() + b"newer")
    settings.GALLOP_BINARY = newer
    job = web_server(here, admin)
    assert job.status == JobStatus.SUCCEEDED, job.error
    assert running_program(server) == server.paths["binary"]  # and not "... (deleted)"
    assert Path(server.paths["binary"]).read_bytes().endswith(b"newer")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('case " $* " in *" -t "*) echo "[emerg] no such directive" >&2; exit 1;; esac', "no such directive"),
        ('case " $* " in *" -t "*) exit 0;; *" -v "*) exit 0;; esac; echo "cannot start" >&2; exit 1', "cannot start"),
    ],
    ids=["rejects the configuration", "does not start"],
)
def test_failing_newer_gallop_leaves_former_one_running(
    script: str, words: str, here: Host, admin: User, settings: Any, tmp_path: Path
) -> None:
    web_server(here, admin)
    server = WebServer.objects.get()
    before = Path(server.paths["binary"]).read_bytes()
    broken = tmp_path / "gallop"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    settings.GALLOP_BINARY = broken
    job = web_server(here, admin)
    assert job.status == JobStatus.FAILED
    assert words in job.error
    assert Path(server.paths["binary"]).read_bytes() == before
    assert running_program(server) == server.paths["binary"]
    assert sorted(path.name for path in Path(server.paths["binary"]).parent.iterdir()) == ["gallop"]


def test_gallop_that_cannot_be_restored_is_reported_without_leftovers(
    here: Host, admin: User, settings: Any, tmp_path: Path
) -> None:
    web_server(here, admin)
    server = WebServer.objects.get()
    binary, main = Path(server.paths["binary"]), Path(server.paths["main_config"])
    before, text = binary.read_bytes(), main.read_text()
    left = [binary.with_name(".gallop.4242"), binary.with_name(".gallop.4242.former")]
    for path in left:
        path.write_text("an agent was killed here")
    worse = tmp_path / "gallop"
    worse.write_text(
        '#!/bin/sh\ncase " $* " in *" -t "*) exit 0;; *" -v "*) exit 0;; esac\n'
        f'echo "broken;" >> {main}\necho "no" >&2; exit 1\n'
    )
    settings.GALLOP_BINARY = worse
    job = web_server(here, admin)
    assert job.status == JobStatus.FAILED
    assert "does not start either, so the web server is down" in job.error and "broken" in job.error
    assert binary.read_bytes() == before
    assert [path.name for path in binary.parent.iterdir()] == ["gallop"]
    main.write_text(text)
    settings.GALLOP_BINARY = Path(gallop_binary())
    assert web_server(here, admin).status == JobStatus.SUCCEEDED
    with pool.session(target_for(here)) as agent:
        started = agent.call("service", {"engine": plain(engine_control(server)), "action": "start"})
    assert started["running"]
    assert running_program(server) == server.paths["binary"]


def test_unprivileged_account_gets_private_nginx(here: Host, admin: User) -> None:
    job = host_job_request(actor=admin, host=here, kind=HostJobKind.CHECK)
    host_job_execute(job.uuid)
    with pool.session(target_for(here)) as agent:
        made = install_private_nginx(here, agent)
        assert made is not None
        assert install_private_nginx(here, agent) == made
        status = agent.call("service", {"engine": plain(engine_control(made)), "action": "stop"})
    assert (made.label, made.manages_main_config, status["running"]) == ("private", True, False)
    assert Path(made.paths["config_root"]).is_relative_to(Path(here.site_roots[0]).parent)


def test_prepare_command_sets_up_local_host(here: Host) -> None:
    call_command("register_local_host")
    call_command("register_local_host")
    here.refresh_from_db()
    assert here.facts["cpus"] >= 1
    assert WebServer.objects.filter(engine="native").count() == 1


def test_gallop_workers_never_run_as_root(here: Host, admin: User) -> None:
    assert web_server(here, admin).status == JobStatus.SUCCEEDED
    paths = WebServer.objects.get().paths
    assert "user nobody;" in Path(paths["main_config"]).read_text()
    (Path(paths["config_root"]) / "conf.d" / "site.conf").write_text(f"server {{ listen 127.0.0.1:{free_port()}; }}\n")
    pid = int(Path(paths["pid_file"]).read_text())
    os.kill(pid, signal.SIGHUP)
    # A new worker gives its rights up before it accepts anything; the one before it may still be there.
    assert eventually(lambda: bool(workers(pid)) and 0 not in workers(pid))


def workers(master: int) -> set[int]:
    """The user ids of the processes that this one started."""
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    texts = [Path(f"/proc/{child}/status").read_text() for child in children]
    return {int(re.search(r"^Uid:\t\d+\t(\d+)", text, re.M)[1]) for text in texts}  # type: ignore[index]


def test_folder_closed_to_workers_is_reported_with_remedy(settings: Any, server_root: Path, admin: User) -> None:
    """For example a panel home below /root. gallop is not started with root workers instead."""
    settings.HOME, settings.GALLOP_BINARY = server_root / "private" / "home", Path(gallop_binary())
    settings.LOCAL_HOST_ROOT = settings.HOME / "host"
    settings.LOCAL_HOST_ROOT.mkdir(parents=True)
    (server_root / "private").chmod(0o700)
    job = web_server(register_local_host(), admin)
    pool.close()
    assert job.status == JobStatus.FAILED
    assert f"cannot enter {server_root}/private" in job.error and "PADDOCK_LOCAL_HOST_FOLDER" in job.error
    assert not WebServer.objects.exists() and not list(server_root.rglob("gallop.conf"))


def test_local_folder_is_outside_private_home(monkeypatch: pytest.MonkeyPatch, server_root: Path) -> None:
    monkeypatch.setattr(env, "SYSTEM_FOLDER", server_root / "lib")
    monkeypatch.delenv("PADDOCK_LOCAL_HOST_FOLDER")
    shut, opened = server_root / "shut", server_root / "opened"
    shut.mkdir(mode=0o700)
    opened.mkdir(mode=0o755)
    assert env.host_folder("PADDOCK_LOCAL_HOST_FOLDER", opened / "home") == opened / "home" / "host"
    outside = env.host_folder("PADDOCK_LOCAL_HOST_FOLDER", shut / "home")
    assert outside.parent == server_root / "lib"
    assert outside != env.host_folder("PADDOCK_LOCAL_HOST_FOLDER", shut / "other"), "two panels share no folder"
    monkeypatch.setenv("PADDOCK_LOCAL_HOST_FOLDER", "/srv/paddock")
    assert env.host_folder("PADDOCK_LOCAL_HOST_FOLDER", shut / "home") == Path("/srv/paddock")


def test_new_local_folder_is_open_to_workers_under_any_umask(settings: Any, server_root: Path) -> None:
    settings.HOME, settings.LOCAL_HOST_ROOT = server_root / "home", server_root / "lib" / "paddock" / "abc"
    settings.HOME.mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        host = register_local_host()
    finally:
        os.umask(before)
    assert env.shut_folder(Path(host.site_roots[0])) is None
    assert settings.HOME.stat().st_mode & 0o777 == 0o700, "what is not on the way stays closed"
