"""Hosts that are registered automatically: this machine, and the demo hosts of docker-compose.yml."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostStatus
from tests.support.process import tool
from tests.support.sshd import SshServer

ROOT = Path(__file__).resolve().parents[2]
SECRETS = ("secret_key", "postgres_password", "encryption_keys", "database_url", "demo/demo_key", "demo/demo_host_key")


@pytest.fixture
def demo(sshd: SshServer, tmp_path: Path) -> Path:
    """The folder that scripts/compose-secrets.sh would have made for this sshd."""
    (tmp_path / "demo_key").write_text(sshd.private_key)
    shutil.copy(sshd.root / "host_key.pub", tmp_path / "demo_host_key.pub")
    return tmp_path


def register(folder: Path, sshd: SshServer) -> None:
    hosts = [f"--host=demo-{engine}=127.0.0.1:{sshd.port}" for engine in ("nginx", "apache")]
    call_command("register_demo_hosts", str(folder), *hosts, "--username", sshd.username)


@pytest.mark.django_db(transaction=True)
def test_demo_hosts_are_registered_once_and_respond(demo: Path, sshd: SshServer) -> None:
    register(demo, sshd)
    register(demo, sshd)
    assert list(Host.objects.values_list("name", "status")) == [("demo-apache", "ready"), ("demo-nginx", "ready")]
    assert {host.host_key for host in Host.objects.all()} == {sshd.host_key}
    jobs = list(HostJob.objects.all())
    assert len(jobs) == 2
    for job in jobs:
        host_job_execute(job.uuid)
        job.refresh_from_db()
        assert job.status == JobStatus.SUCCEEDED, job.error
        assert job.host.facts["cpus"] >= 1


@pytest.mark.django_db(transaction=True)
def test_registration_sends_nothing_to_wrong_host_key(demo: Path, sshd: SshServer) -> None:
    register(demo, sshd)
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    job = HostJob.objects.get(host__name="demo-nginx")
    host_job_execute(job.uuid)
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED
    assert job.host.status == HostStatus.KEY_CHANGED


@pytest.mark.django_db
def test_registration_defaults_match_compose_file(demo: Path) -> None:
    call_command("register_demo_hosts", str(demo))
    found = Host.objects.values_list("name", "address", "port", "username", "site_roots")
    assert list(found) == [(name, name, 22, "root", ["/var/www"]) for name in ("demo-apache", "demo-nginx")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "content", "host", "said"),
    [
        ("demo_key", None, "a", "compose-secrets.sh"),
        ("demo_key", "no key", "a", "private key cannot be read"),
        ("demo_host_key.pub", "no key", "a", "a was not registered"),
        ("unused", "", "a=b:ssh", "is not a port"),
        ("unused", "", "a b", "a b was not registered"),
    ],
)
def test_invalid_demo_host_is_rejected_with_message(
    demo: Path, name: str, content: str | None, host: str, said: str
) -> None:
    (demo / name).unlink(missing_ok=True)
    if content is not None:
        (demo / name).write_text(content)
    with pytest.raises(CommandError, match=said):
        call_command("register_demo_hosts", str(demo), f"--host={host}")
    assert not Host.objects.exists()


@pytest.mark.django_db
def test_local_host_is_not_registered_when_disabled(settings: Any, tmp_path: Path) -> None:
    settings.LOCAL_HOST = False
    settings.LOCAL_HOST_ROOT = tmp_path / "host"
    call_command("register_local_host")
    assert not Host.objects.exists()
    assert not settings.LOCAL_HOST_ROOT.exists()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What of the repository the compose file and its scripts refer to."""
    for name in ("docker", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    subprocess.run([tmp_path / "scripts" / "compose-secrets.sh"], check=True, capture_output=True)
    return tmp_path


def test_compose_secrets_are_created_once_and_private(tree: Path) -> None:
    before = {name: (tree / "secrets" / name).read_text() for name in SECRETS}
    subprocess.run([tree / "scripts" / "compose-secrets.sh"], check=True, capture_output=True)
    assert before == {name: (tree / "secrets" / name).read_text() for name in SECRETS}
    assert len(set(before.values())) == len(SECRETS)
    assert before["postgres_password"].strip() in before["database_url"]
    assert (tree / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tree / "secrets" / "demo" / "demo_host_key.pub").read_text().startswith("ssh-ed25519 ")


def test_compose_file_is_valid_and_complete(tree: Path) -> None:
    argv = [tool("docker-compose"), "config"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tree), "PADDOCK_ALLOWED_HOSTS": "panel.example.com"}
    done = subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    assert set(found["services"]) == {"web", "worker", "beat", "postgres", "redis", "demo-nginx", "demo-apache"}
    assert all("healthcheck" in service for service in found["services"].values())
    for secret in found["secrets"].values():
        assert Path(secret["file"]).is_file(), secret
    web = found["services"]["web"]
    assert web["environment"]["PADDOCK_ALLOWED_HOSTS"].split(",") == ["127.0.0.1", "panel.example.com"]
    assert json.dumps(found["services"]["worker"]["depends_on"]["web"]) == '{"condition": "service_healthy"}'


@pytest.mark.parametrize("script", ["docker/entrypoint.sh", "docker/host.sh", "scripts/compose-secrets.sh"])
def test_docker_scripts_have_valid_shell_syntax(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    done = subprocess.run(["/bin/sh", "-n", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_entry_point_prints_usage() -> None:
    done = subprocess.run([ROOT / "docker" / "entrypoint.sh", "shell"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "web | worker | beat" in done.stderr
