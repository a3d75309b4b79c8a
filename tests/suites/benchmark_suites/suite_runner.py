"""A host with the real servers, and a worker that carries a suite out to its end."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.urls import reverse

from agents.host import applications, detect
from panel.accounts.models import User
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.runs import execution
from panel.benchmarks.suites import exports as suite_exports
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.choosing import Choice, duration_words
from panel.benchmarks.suites.definitions import PresetName
from panel.benchmarks.suites.services import suite_advance, suite_start
from panel.core.claims import Attempt
from panel.hosts.models import Connection, Host, HostStatus, Layout, WebServer
from tests.support import openlitespeed
from tests.support.cast import signed_in
from tests.support.gallop import gallop_binary
from tests.support.process import tool
from tests.support.sshd import SshServer

ENGINES = {"nginx": ("nginx",), "apache": ("apache2", "httpd")}


def add_web_servers(host: Host, programs: dict[str, str] | None = None) -> None:
    """nginx, Apache and gallop as this machine has them, or those of `programs` (by engine); their own configuration
    is never touched by a suite."""
    binaries = {engine: tool(*names) for engine, names in ENGINES.items()} | {"native": gallop_binary()}
    if installed := openlitespeed.source():
        binaries["openlitespeed"] = str(installed / "bin" / "openlitespeed")
    for engine, binary in (binaries | (programs or {})).items():
        paths = {"binary": binary, "config_root": f"/etc/{engine}", "main_config": f"/etc/{engine}/main.conf"}
        version, modules = _built(engine, binary)
        WebServer.objects.create(
            host=host, engine=engine, layout=Layout.CONF_D, version=version, modules=modules, paths=paths
        )


def _built(engine: str, binary: str) -> tuple[str, list[str]]:
    """Version and modules, as the server says of itself; nginx and gallop write them to their error output."""
    option = "-V" if engine == "nginx" else "-v"
    done = subprocess.run([binary, option], capture_output=True, text=True, timeout=20, check=True)
    said = done.stdout + done.stderr
    found = re.search(r"/(\d[\d.]*)", said)
    assert found, f"{binary} {option} does not tell its version: {said}"
    return found[1], sorted(set(re.findall(r"--with-((?:http|stream|mail)\w*_module)", said)))


def local_host() -> Host:
    return Host.objects.create(
        name="here", connection=Connection.LOCAL, status=HostStatus.READY, layout=Layout.CONF_D, facts=facts()
    )


def facts() -> dict[str, Any]:
    """What a check of this machine would find of applications."""
    return {"applications": {"wordpress": applications.version()}, "lsphp": lsphp()}


def lsphp() -> str:
    """As a check of a host with that OpenLiteSpeed finds it."""
    installed = openlitespeed.source()
    servers = [{"engine": "openlitespeed", "paths": {"prefix": str(installed)}}] if installed else []
    return detect.lsphp(servers)


def carried_out(row: SuiteRun) -> list[Run]:
    """What workers and the sweep do between them, here one after the other."""
    while not row.is_ended:
        suite_advance(row)
        for run in row.runs.filter(status=RunStatus.QUEUED):
            assert execution.run_execute(run.uuid) == Attempt.DONE
        row.refresh_from_db()
    return list(row.runs.order_by("case"))


def ssh_host(sshd: SshServer, name: str = "there") -> Host:
    """The same machine, reached as another one is; or one of tests/support/namespace_hosts.py."""
    return Host.objects.create(
        name=name,
        address=sshd.address,
        port=sshd.port,
        username=sshd.username,
        private_key=sshd.private_key,
        host_key=sshd.host_key,
        status=HostStatus.READY,
        layout=Layout.CONF_D,
    )


def administrator(name: str = "admin") -> User:
    user = User(username=name, role="admin")
    user.set_unusable_password()
    user.save()
    return user


@dataclass(frozen=True)
class Wanted:
    """What is to be run of a suite, and where its pages are kept."""

    slug: str
    preset: PresetName
    servers: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)
    keep: Path | None = None


def run_and_print(actor: User, host: Host, wanted: Wanted) -> int:
    """Runs one suite, or the part of it, to its end; how many of its cases failed."""
    row = suite_start(
        actor=actor,
        suite=wanted.slug,
        preset=wanted.preset,
        host=host,
        setups=wanted.servers,
        choice=wanted.choice,
    )
    shortened = ", shortened" if wanted.preset == "short" else ""
    part = suite_results.part_words(row)
    print(f"\n== {row.title}{shortened}", flush=True)
    if part:
        print(f"A part of the suite: {part}.")
    print(f"{len(row.plan)} cases, {duration_words(suite_results.expected_s(row))} by what was published.", flush=True)
    runs = carried_out(row)
    print(suite_exports.text(suite_results.tables(row)))
    for run in runs:
        said = [run.error] if run.error else [f"do not believe these figures: {reason}" for reason in run.reasons]
        for words in said:
            print(f"{run.title}: {words}", flush=True)
    if wanted.keep is not None:
        _keep(actor, row, wanted.keep)
    return sum(run.status == RunStatus.FAILED for run in runs)


def _keep(actor: User, row: SuiteRun, folder: Path) -> None:
    client = signed_in(actor)
    folder.mkdir(parents=True, exist_ok=True)
    for name, ending in (("suite-report", "html"), ("suite-json", "json"), ("suite-csv", "csv")):
        answer = client.get(reverse(f"benchmarks:{name}", args=[row.uuid]))
        assert answer.status_code == 200, answer.content[:2000]
        part = "-part" if row.choice.is_part else ""
        (folder / f"{row.suite}-{row.preset}{part}.{ending}").write_bytes(answer.content)
