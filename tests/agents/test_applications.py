"""Packages of ready-made applications, with real apt and dpkg on a private package repository."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agents.host import applications
from agents.host.errors import Refusal

CONTROL = (
    "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: T <t@a.example>\nDescription: test\n{more}"
)


def call(**args: Any) -> dict[str, Any]:
    return applications.run({"name": "wordpress", **args}, lambda event: None, threading.Event())


def package(repository: Path, name: str, version: str = "1.0", more: str = "") -> None:
    tree = repository / "trees" / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(CONTROL.format(name=name, version=version, more=more))
    deb = f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(repository / deb)], check=True, capture_output=True)
    entry = CONTROL.format(name=name, version=version, more=more)
    size = (repository / deb).stat().st_size
    digest = subprocess.run(["sha256sum", repository / deb], check=True, capture_output=True, text=True).stdout.split()[
        0
    ]
    with (repository / "Packages").open("a") as index:
        index.write(f"{entry}Filename: ./{deb}\nSize: {size}\nSHA256: {digest}\n\n")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with the packages, none of them installed; apt and dpkg keep their records below it."""
    root = tmp_path / "root"
    for folder in (
        "etc/apt/preferences.d",
        "etc/apt/apt.conf.d",
        "lists/partial",
        "cache/archives/partial",
        "dpkg/info",
    ):
        (root / folder).mkdir(parents=True)
    for folder in ("updates", "triggers"):
        (root / "dpkg" / folder).mkdir()
    (root / "dpkg" / "status").write_text("")
    (root / "dpkg" / "available").write_text("")
    found = tmp_path / "repository"
    found.mkdir()
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] copy:{found} ./\n")
    options = {
        "Dir::Etc": f"{root}/etc/apt",
        "Dir::Etc::Parts": f"{root}/etc/apt/apt.conf.d",
        "Dir::State::lists": f"{root}/lists",
        "Dir::State::status": f"{root}/dpkg/status",
        "Dir::Cache": f"{root}/cache",
        "DPkg::Options::": f"--root={root}/target",
        "APT::Sandbox::User": "root",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    monkeypatch.setattr(applications, "OPTIONS", words)
    monkeypatch.setattr(applications, "PACKAGES", {"wordpress": ("wordpress", "mariadb-server-core")})
    package(found, "mariadb-server-core")
    package(found, "wordpress-theme-test")
    package(found, "wordpress", more="Recommends: wordpress-l10n, wordpress-theme-test\n")
    return found


def test_package_plan_names_every_package_and_theme(repository: Path) -> None:
    plan = call(action="plan")
    assert {item["name"] for item in plan["packages"]} == {"wordpress", "mariadb-server-core", "wordpress-theme-test"}
    assert {(item["version"], item["was"]) for item in plan["packages"]} == {("1.0", "")}
    assert plan["removed"] == []
    assert plan["bytes"] == sum(path.stat().st_size for path in repository.glob("*.deb"))
    assert plan["command"][0] == "apt-get" and "--no-remove" in plan["command"]


def test_changed_package_plan_is_rejected(repository: Path) -> None:
    plan = call(action="plan")
    package(repository, "wordpress", "2.0", more="Recommends: wordpress-theme-test\n")
    with pytest.raises(Refusal, match="have changed since the plan was shown") as caught:
        call(action="install", plan=plan)
    assert caught.value.code == "drift"
    with pytest.raises(Refusal, match="have changed since the plan was shown"):
        call(action="install")


@pytest.mark.parametrize(
    "args", [{"name": "openssh-server", "action": "install"}, {"action": "remove"}, {"name": ["wordpress"]}]
)
def test_unknown_application_is_rejected(args: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=r"an application is one of|action is plan or install"):
        call(**args)


def test_package_plan_is_empty_when_everything_is_installed() -> None:
    """Reads the records of this machine, where the tests installed WordPress."""
    assert applications.missing() == []
    assert applications.version().count(".") >= 1
    assert call(action="plan") == {"packages": [], "removed": [], "bytes": 0, "command": []}
