"""docs/threats.md names existing tests; and attacks that no other file tries."""

from __future__ import annotations

import ast
import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from panel.core.errors import ApplicationError
from panel.deployments.planning import services as deployments
from panel.deployments.revisions.rendered import site_files
from panel.imports.sources import UploadedFiles
from panel.websites import freeze
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.cast import Cast, cast

TESTS = Path(__file__).resolve().parents[2]
TABLE = TESTS.parent / "docs" / "threats.md"
CLASSES = 21


def rows() -> list[tuple[str, list[str]]]:
    """Each row's class of attack and the names of its tests. A class can have several rows."""
    lines = [line.split("|") for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [(cells[1].strip(), re.findall(r"`([^`]+)`", cells[3])) for cells in lines[1:]]


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_threat_table_names_existing_tests() -> None:
    table, wrong = rows(), []
    assert len({name for name, _ in table}) >= CLASSES
    for name, tests in table:
        if not tests:
            wrong.append(f"{name}: no test")
        for test in tests:
            file, _, function = test.partition("::")
            path = TESTS / file
            if not path.is_file() or not function.startswith("test_") or function not in functions_of(path):
                wrong.append(f"{name}: there is no test {test}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def test_stored_value_renders_the_same_everywhere(people: Cast) -> None:
    """In the preview, in a plan, from an exported clone, and in a rollback."""
    payload = "a\\\"b';}#{$$ \\\\ %{ENV:PATH} ${host}"
    site = websites.site_create(
        actor=people.owner,
        team=people.team,
        name="shop",
        domains=["shop.example"],
        web_server=people.nginx,
        root="/srv/www/shop",
    )
    headers = [{"name": "X-Payload", "value": payload.replace("$", "")}]
    websites.block_update(actor=people.owner, block=site.blocks.get(), headers=headers)
    site = Site.objects.get(pk=site.pk)
    preview = {file.path: file.text for file in site_files(site, people.nginx, freeze.site_spec(site, people.nginx))}
    (plan,) = deployments.deployment_plan(actor=people.owner, sites=[site])
    revision = plan.items.get().revision
    assert revision is not None
    data = websites.site_export(site)
    websites.site_define(actor=people.owner, data=data, site=site)
    assert websites.site_export(site) == data
    (again,) = deployments.deployment_plan(actor=people.owner, sites=[Site.objects.get(pk=site.pk)])
    assert again.items.get().revision == revision, "the same definition is the same files"
    back = deployments.site_rollback(actor=people.owner, site=site, revision=revision)
    assert {file.path: file.sha256 for file in back.plan.files}.items() >= {
        file.path: file.sha256 for file in plan.plan.files
    }.items()
    assert any(
        line.strip().startswith("add_header X-Payload ") for text in preview.values() for line in text.split("\n")
    )


def tar_of(*entries: tuple[str, bytes, str]) -> bytes:
    """(name, content, target of the link or nothing)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, link in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if link:
                info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(name: str, content: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nginx.conf", "events {}")
        archive.writestr(name, content)
    return buffer.getvalue()


def swollen() -> bytes:
    """A few hundred kilobytes that unpack to more than any configuration."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(200):
            archive.writestr(f"{number}.conf", b"#" * (512 * 1024))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (lambda: tar_of(("../../etc/cron.d/x", b"x", "")), "points outside the archive"),
        (lambda: tar_of(("/etc/cron.d/x", b"x", "")), "points outside the archive"),
        (lambda: tar_of(("a/../../x", b"x", "")), "points outside the archive"),
        (lambda: zip_of("../x.conf"), "points outside the archive"),
        (lambda: zip_of("..\\x.conf"), "points outside the archive"),
        (lambda: zip_of("a\nb.conf"), "points outside the archive"),
        (lambda: zip_of("a.conf")[:-40], "cannot be read"),
        (lambda: tar_of(("nginx.conf", b"events {}", ""))[:60], "cannot be read"),
        (swollen, "too large when unpacked"),
        (lambda: b"", "cannot be read"),
        (lambda: b"not an archive", "cannot be read"),
    ],
    ids=[
        "climbs",
        "absolute",
        "climbs later",
        "zip",
        "backslash",
        "line break",
        "cut zip",
        "cut",
        "bomb",
        "empty",
        "none",
    ],
)
def test_escaping_or_oversized_archive_is_rejected_whole(pack: Callable[[], bytes], words: str) -> None:
    with pytest.raises(ApplicationError, match=words):
        UploadedFiles("nginx", "upload", pack())


def test_archive_link_cannot_leave_archive() -> None:
    data = tar_of(
        ("nginx.conf", b"events {}", ""),
        ("here.conf", b"", "nginx.conf"),
        ("out.conf", b"", "/etc/shadow"),
        ("up.conf", b"", "../../etc/shadow"),
        ("round.conf", b"", "round.conf"),
    )
    upload = UploadedFiles("nginx", "upload", data)
    names = ("here", "out", "up", "round")
    assert {name: [file.text for file in upload.find(f"/{name}.conf")] for name in names} == {
        "here": ["events {}"],
        "out": [],
        "up": [],
        "round": [],
    }
