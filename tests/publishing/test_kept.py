"""The plan of a move names kept files with their sizes, and a command that copies them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from panel.deployments.planning import services as planning
from panel.hosts.models import Engine, WebServer
from panel.publishing.kept import kept_of
from panel.websites.models import ServerBlock
from tests.publishing.conftest import Published
from tests.support.ports import free_port
from tests.support.process import tool

nginx_only = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)


def kept_words(shop: Published, there: WebServer) -> tuple[str, str]:
    """Plan the move, and return its warning about kept files: the text and the advice."""
    port = free_port()  # both hosts are this machine
    ServerBlock.objects.get(site=shop.site).listens.update(port=port)
    up, _down = planning.site_move(actor=shop.machine.people.owner, site=shop.site, web_server=there)
    (warning,) = [row for row in up.plan.warnings if row.text.startswith("Kept files")]
    return warning.text, warning.nearest


def uploads_of(folder: Path, account: str) -> None:
    """Give a site's folder an upload and hostile entries, all of them owned by an account."""
    uploads = folder / "uploads" / "2026"
    uploads.mkdir(parents=True)
    (uploads / "photo.jpg").write_bytes(b"x" * 5000)
    (uploads / "photo.jpg").chmod(0o640)
    (folder / "uploads" / "secret").symlink_to("/etc/shadow")
    (folder / "uploads" / "etc").symlink_to("/etc")
    os.mkfifo(folder / "uploads" / "pipe")
    with (folder / "uploads" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, account, account) if not path.is_symlink() else os.lchown(path, *ids(account))


def ids(account: str) -> tuple[int, int]:
    entry = pwd.getpwnam(account)
    return entry.pw_uid, entry.pw_gid


@nginx_only
def test_plan_names_kept_files_with_sizes_and_a_command_that_copies_them(
    shop: Published, second: tuple[WebServer, Path], tmp_path: Path
) -> None:
    there, www = second
    assert shop.publish({"index.html": "the shop"}, keep=["uploads", "missing"], replace=True).error == ""
    uploads_of(shop.folder, "www-data")
    (www / "shop").mkdir()
    shutil.chown(www / "shop", "www-data", "www-data")
    text, advice = kept_words(shop, there)
    assert "uploads (" in text and "KB, 5 files)" in text and "missing" not in text, text
    command = advice.partition("both hosts: ")[2]
    sign_in(tmp_path, there)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PATH": path}, timeout=120)
    copied = www / "shop" / "uploads"
    info = (copied / "2026" / "photo.jpg").stat()
    assert (info.st_size, info.st_mode & 0o777, info.st_uid) == (5000, 0o640, ids("www-data")[0])
    assert (copied / "secret").is_symlink() and (copied / "sparse").stat().st_blocks < 1000


def sign_in(folder: Path, there: WebServer) -> None:
    """Write an `ssh` into a folder that signs in to a host, as the configuration of an administrator does."""
    (folder / "key").write_text(there.host.private_key)
    (folder / "key").chmod(0o600)
    options = f"-i {folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {tool("ssh")} {options} "$@"\n')
    (folder / "ssh").chmod(0o755)


@nginx_only
def test_link_in_place_of_a_kept_folder_is_not_followed(shop: Published, second: tuple[WebServer, Path]) -> None:
    assert shop.publish({"index.html": "the shop"}, keep=["data/uploads", "media"], replace=True).error == ""
    (shop.folder / "data").symlink_to("/etc")
    (shop.folder / "media").symlink_to("/usr")
    os.lchown(shop.folder / "media", *ids("www-data"))
    text, advice = kept_words(shop, second[0])
    assert "media (0 bytes, 1 file)" in text and "data/uploads" not in text + advice


@nginx_only
def test_files_of_root_are_not_in_the_command(shop: Published, second: tuple[WebServer, Path]) -> None:
    assert shop.publish({"index.html": "the shop"}, keep=["data.db"], replace=True).error == ""
    (shop.folder / "data.db").write_text("data")
    _text, advice = kept_words(shop, second[0])
    assert "no account of the site owns them: data.db" in advice and "tar" not in advice


def test_report_of_a_hostile_host_is_reduced_to_kept_paths_and_numbers() -> None:
    hostile = {
        "uploads": {"bytes": -1, "files": "9", "owner": "x; rm -rf /", "complete": 1},
        "../etc": {"bytes": 1, "files": 1, "owner": "root", "complete": True},
        "media": ["bytes"],
    }
    (row,) = kept_of({"kept": hostile}, ["uploads", "media", "other"])
    assert (row.path, row.size, row.files, row.owner, row.complete) == ("uploads", 0, 0, "", False)
    assert kept_of({"kept": [1]}, ["uploads"]) == [] and kept_of({}, ["uploads"]) == []
