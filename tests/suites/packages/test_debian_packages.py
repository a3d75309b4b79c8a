"""Install, upgrade and purge the Debian packages on a copy of this machine and on a new Debian with systemd."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.copied_root import CopiedRoot
from tests.support.debian_machine import DebianMachine, debian_root
from tests.support.process import tool
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
FIRST, SECOND = "0.1.0+1", "0.1.0+2"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages in two versions; the second differs from the first in its version alone."""
    folder = tmp_path_factory.mktemp("packages")
    build = (sys.executable, "scripts/package.py", "--compression", "none", "--version", FIRST, "--output", str(folder))
    subprocess.run(build, check=True, cwd=ROOT)
    for package in sorted(folder.glob("*.deb")):
        tree = folder / "tree"
        subprocess.run([tool("dpkg-deb"), "--raw-extract", str(package), str(tree)], check=True)
        control = tree / "DEBIAN" / "control"
        control.write_text(control.read_text().replace(f"Version: {FIRST}", f"Version: {SECOND}"))
        later = str(package).replace(FIRST, SECOND)
        subprocess.run([tool("dpkg-deb"), "--root-owner-group", "-Znone", "--build", str(tree), later], check=True)
        subprocess.run(["rm", "-r", str(tree)], check=True)
    return folder


@pytest.fixture
def root(packages: Path, tmp_path: Path) -> Iterator[CopiedRoot]:
    with CopiedRoot(tmp_path, packages) as copy:
        yield copy


def install(root: CopiedRoot, packages: Path, name: str, version: str) -> str:
    package = next(packages.glob(f"{name}_{version}_*.deb"))
    return root.run("dpkg", "--install", f"/tmp/packages/{package.name}")


@dataclass(frozen=True)
class Installed:
    """A copy of this machine with the package `paddock`, for tests that change none of its files, and what the
    installation printed. Each installation migrates a database."""

    root: CopiedRoot
    said: str


@pytest.fixture(scope="module")
def paddock(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with CopiedRoot(tmp_path_factory.mktemp("paddock"), packages) as root:
        yield Installed(root, install(root, packages, "paddock", FIRST))


def exists(root: CopiedRoot, path: str) -> bool:
    return root.start("test", "-e", path).wait() == 0


def status_of(root: CopiedRoot, url: str) -> str:
    """The status of a GET from inside the copy; 000 without a response."""
    process = root.start("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10", url)
    return process.communicate()[0].strip()


def test_paddock_package_prints_setup_link_that_opens(paddock: Installed) -> None:
    root = paddock.root
    link = root.run("paddock", "setup-link").strip()
    assert link in paddock.said
    web = root.start("paddock", "web")
    assert eventually(lambda: status_of(root, "http://localhost:8000/healthz") == "200")
    assert status_of(root, link) == "200"
    account = root.run("ps", "-o", "user=", "-C", "python,python3,python3.11").split()
    assert set(account) == {"paddock"}
    web.terminate()
    web.wait(30)


def test_paddock_package_keeps_data_private_and_code_read_only(paddock: Installed) -> None:
    root = paddock.root
    assert root.run("stat", "-c", "%U %a", "/var/lib/paddock").strip() == "paddock 700"
    assert root.run("stat", "-c", "%U %G %a", "/etc/paddock/paddock.env").strip() == "root paddock 640"
    writable = root.run(
        "find", "/usr/lib/paddock", "!", "-type", "l", "(", "!", "-user", "root", "-o", "-perm", "/022", ")"
    )
    assert not writable.strip()


def test_paddock_upgrade_keeps_accounts_settings_and_keys(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "paddock", FIRST)
    root.run("sh", "-c", "echo PADDOCK_PORT=8001 >> /etc/paddock/paddock.env")
    link = root.run("paddock", "setup-link").strip()
    keys = root.run("sha256sum", "/var/lib/paddock/secrets/encryption_keys")
    install(root, packages, "paddock", SECOND)
    assert root.run("paddock", "setup-link").strip() == link
    assert ":8001/" in link
    assert root.run("sha256sum", "/var/lib/paddock/secrets/encryption_keys") == keys
    root.start("paddock", "web")
    assert eventually(lambda: status_of(root, link) == "200")


def test_paddock_purge_removes_data_settings_and_account(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "paddock", FIRST)
    root.run("dpkg", "--purge", "paddock")
    paths = ("/var/lib/paddock", "/etc/paddock", "/usr/lib/paddock", "/lib/systemd/system/paddock-web.service")
    assert [path for path in paths if exists(root, path)] == []
    root.run("getent", "passwd", "paddock", code=2)


def test_units_of_paddock_package_are_accepted_by_systemd(paddock: Installed) -> None:
    assert_systemd_accepts_units_of("paddock", paddock.root)


def test_units_of_gallop_package_are_accepted_by_systemd(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "gallop", FIRST)
    assert_systemd_accepts_units_of("gallop", root)


def assert_systemd_accepts_units_of(name: str, root: CopiedRoot) -> None:
    units = root.run("sh", "-c", f"ls /lib/systemd/system/{name}*.service").split()
    assert units
    said = root.run("systemd-analyze", "verify", "--man=no", *units)
    assert name not in said, said


def test_gallop_package_serves_its_first_page(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "gallop", FIRST)
    root.run("gallop", "-t")
    root.run("gallop")
    assert eventually(lambda: status_of(root, "http://localhost/") == "200")
    assert "gallop works" in root.run("curl", "-s", "http://localhost/")


def test_gallop_upgrade_refuses_no_request(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "gallop", FIRST)
    root.run("gallop")
    assert eventually(lambda: status_of(root, "http://localhost/") == "200")
    root.run("mkdir", "-p", "/run/systemd/system")  # the package's script asks for systemd by this folder
    first = root.run("cat", "/run/gallop.pid")
    # A number of requests instead of seconds: with -D, h2load never ends if a connection is closed at the last moment.
    load = root.start("h2load", "--h1", "-c", "8", "-t", "1", "-n", "800000", "http://localhost/")
    time.sleep(1)  # the load has to be under way
    install(root, packages, "gallop", SECOND)
    report = load.communicate(timeout=240)[0]
    assert load.returncode == 0, report
    assert " 0 failed, 0 errored, 0 timeout" in report, report
    assert eventually(lambda: root.run("cat", "/run/gallop.pid") != first)
    assert root.run("readlink", f"/proc/{root.run('cat', '/run/gallop.pid').strip()}/exe").strip() == "/usr/sbin/gallop"


def test_gallop_purge_removes_configuration_and_logs(root: CopiedRoot, packages: Path) -> None:
    install(root, packages, "gallop", FIRST)
    root.run("dpkg", "--purge", "gallop")
    assert [path for path in ("/etc/gallop", "/var/log/gallop", "/usr/sbin/gallop") if exists(root, path)] == []


@pytest.fixture(scope="module")
def new_debian(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minimal Debian with the declared dependencies of the package `paddock` and nothing else."""
    package = next(packages.glob(f"paddock_{FIRST}_*.deb"))
    fields = subprocess.run(
        [tool("dpkg-deb"), "--field", str(package), "Depends"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    target = tmp_path_factory.mktemp("debian") / "root"
    debian_root(target, tuple(sorted({part.split()[0] for part in fields.split(",")})))
    return target


@pytest.fixture
def machine(new_debian: Path, packages: Path, tmp_path: Path) -> Iterator[DebianMachine]:
    root = tmp_path / "root"
    subprocess.run(["cp", "--archive", "--reflink=auto", str(new_debian), str(root)], check=True)
    with DebianMachine(root, packages) as booted:
        yield booted
    subprocess.run(["rm", "--recursive", "--force", str(root)], check=True)


def apt_install(machine: DebianMachine, packages: Path, name: str, version: str) -> str:
    package = next(packages.glob(f"{name}_{version}_*.deb"))
    return machine.run("apt-get", "install", "--yes", "--no-install-recommends", f"/packages/{package.name}")


def active(machine: DebianMachine, *units: str) -> bool:
    return machine.run("systemctl", "show", "--property=ActiveState", "--value", *units).split() == ["active"] * len(
        units
    )


PROCESSES = tuple(f"paddock-{name}.service" for name in ("web", "worker", "scheduler"))


def test_paddock_package_runs_under_systemd_and_survives_power_failure_upgrade_and_purge(
    machine: DebianMachine, packages: Path
) -> None:
    said = apt_install(machine, packages, "paddock", FIRST)
    link = machine.run("paddock", "setup-link").strip()
    assert link in said
    assert "static unit" not in said and "arning" not in said, said
    assert active(machine, *PROCESSES)
    assert eventually(lambda: machine.status_of(link) == "200", timeout_s=30)
    users = machine.run("systemctl", "show", "--property=User", "--value", *PROCESSES).split()
    assert set(users) == {"paddock"}

    machine.power_off()
    machine.power_on()
    assert active(machine, *PROCESSES)
    assert eventually(lambda: machine.status_of(link) == "200", timeout_s=30)

    before = machine.run("systemctl", "show", "--property=MainPID", "--value", *PROCESSES).split()
    apt_install(machine, packages, "paddock", SECOND)
    assert active(machine, *PROCESSES)
    after = machine.run("systemctl", "show", "--property=MainPID", "--value", *PROCESSES).split()
    assert not set(before) & set(after)
    assert eventually(lambda: machine.status_of(link) == "200", timeout_s=30)

    machine.run("apt-get", "purge", "--yes", "paddock")
    assert not machine.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "paddock*").strip()
    assert machine.status_of("http://localhost:8000/") == "000"


def test_gallop_package_runs_under_systemd_and_survives_kill_and_power_failure(
    machine: DebianMachine, packages: Path
) -> None:
    apt_install(machine, packages, "gallop", FIRST)
    assert active(machine, "gallop.service")
    assert machine.status_of("http://localhost/") == "200"

    machine.run("systemctl", "kill", "--signal=KILL", "gallop.service")
    assert eventually(lambda: machine.status_of("http://localhost/") == "200")

    machine.power_off()
    machine.power_on()
    assert active(machine, "gallop.service")
    assert machine.status_of("http://localhost/") == "200"

    machine.run("apt-get", "purge", "--yes", "gallop")
    assert machine.status_of("http://localhost/") == "000"
