"""Archives that users upload: what is taken of them, and what is refused before anything is stored."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host import content_tree
from agents.host.errors import Refusal
from panel.core.errors import ApplicationError
from panel.publishing import archives
from panel.publishing.archives import packed
from tests.publishing.conftest import tarred, zipped


def taken(archive: io.BytesIO, folder: str = "") -> dict[str, str]:
    """Names and contents of the new archive; -> and the target for a link."""
    target = io.BytesIO()
    packed(archive, target, folder)
    target.seek(0)
    found = {}
    with tarfile.open(fileobj=target, mode="r:gz") as new:
        for member in new:
            if member.issym():
                found[member.name] = f"-> {member.linkname}"
            elif member.isreg():
                file = new.extractfile(member)
                found[member.name] = file.read().decode() if file else ""
    return found


FILES = {"index.html": "a", "css/main.css": "b"}


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_in_every_compression_are_read(mode: str) -> None:
    assert taken(tarred(FILES, mode=mode)) == FILES


def test_zip_archives_are_read() -> None:
    assert taken(zipped(FILES)) == FILES


def test_single_folder_that_holds_everything_is_left_out() -> None:
    assert taken(zipped({f"shop-main/{name}": text for name, text in FILES.items()})) == FILES
    assert taken(zipped({"shop-main/dist/index.html": "a"}), "dist") == {"index.html": "a"}
    assert taken(zipped({"index.html": "a"})) == {"index.html": "a"}


def test_folder_of_the_archive_can_be_chosen() -> None:
    archive = zipped({"README": "x", "dist/index.html": "a", "src/main.ts": "b"})
    assert taken(archive, "dist/") == {"index.html": "a"}
    with pytest.raises(
        ApplicationError, match=r"no files in the folder build. Choose one of the folders dist, src"
    ) as refused:
        taken(archive, "build")
    assert refused.value.field == "folder"
    with pytest.raises(ApplicationError, match="inside the archive"):
        taken(archive, "../x")


def test_repositories_and_files_of_desktops_are_left_out() -> None:
    junk = {".git/config": "x", "__MACOSX/a": "x", "a/.DS_Store": "x", "css/Thumbs.db": "x"}
    assert taken(zipped({**FILES, **junk})) == FILES


def test_links_that_stay_inside_are_kept() -> None:
    found = taken(tarred({"a/b.txt": "b"}, {"a/c.txt": "b.txt", "d": "a/b.txt"}))
    assert found == {"a/b.txt": "b", "a/c.txt": "-> b.txt", "d": "-> a/b.txt"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "..", "a/b/../../../x"])
def test_links_that_lead_outside_are_refused(target: str) -> None:
    with pytest.raises(ApplicationError, match="points outside"):
        taken(tarred(FILES, {"link": target}))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a\nb", "x/" * 70 + "y", "n" * 300])
def test_names_that_lead_outside_or_cannot_be_files_are_refused(name: str) -> None:
    for archive in (tarred({**FILES, name: "x"}), zipped({**FILES, name: "x"})):
        with pytest.raises(ApplicationError) as refused:
            taken(archive)
        assert refused.value.field == "archive"


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_hard_links_and_devices_are_refused(kind: bytes) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("x")
        info.type, info.linkname = kind, "index.html"
        tar.addfile(info)
    archive.seek(0)
    with pytest.raises(ApplicationError, match="neither a file, a folder, nor a symbolic link"):
        taken(archive)


def test_name_that_occurs_twice_or_is_file_and_folder_is_refused() -> None:
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a", "1")
        archive.writestr("a", "2")
    with pytest.raises(ApplicationError, match="twice"):
        taken(twice)
    with pytest.raises(ApplicationError, match="below a path that is a file or a symbolic link"):
        taken(tarred({"a/b": "x", "c": "y"}, {"a": "c"}))


def test_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1000)
    for archive in (zipped({"a": "x" * 2000}), tarred({"a": "x" * 2000})):
        with pytest.raises(ApplicationError, match="MiB when unpacked"):
            taken(archive)
    monkeypatch.setattr(archives, "MAX_FILES", 3)
    with pytest.raises(ApplicationError, match="more than 3 entries"):
        taken(zipped(dict.fromkeys("abcde", "")))


def test_zip_that_announces_less_than_it_holds_is_refused() -> None:
    data = zipped({"a": "x" * 100_000}).getvalue()
    lying = data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lying != data
    with pytest.raises(ApplicationError):
        taken(io.BytesIO(lying))


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04", b"not an archive", b"\x1f\x8b\x08\x00broken", b"PK\x05\x06" + b"\0" * 18]
)
def test_damaged_archives_are_refused(data: bytes) -> None:
    with pytest.raises(ApplicationError) as refused:
        taken(io.BytesIO(data))
    assert refused.value.field == "archive"


@given(st.binary(max_size=400), st.sampled_from([b"PK\x03\x04", b"\x1f\x8b", b"", b"BZh9", b"\xfd7zXZ\0"]))
def test_any_bytes_are_an_archive_or_refused(data: bytes, magic: bytes) -> None:
    try:
        taken(io.BytesIO(magic + data))
    except ApplicationError as error:
        assert error.field == "archive"


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=5), min_size=1, max_size=5))
def test_every_accepted_archive_is_accepted_by_the_agent(files: dict[str, str]) -> None:
    try:
        names = taken(tarred(files))
    except (ApplicationError, UnicodeEncodeError):
        return
    for name in names:
        assert content_tree._parts(name)


def test_agent_refuses_archives_that_the_panel_would_not_send(tmp_path: Path) -> None:
    for archive in (tarred({"../x": "y"}), tarred({}, {"l": "/etc"}), tarred({"a": "b"}, {"l": "../../x"})):
        folder = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(Refusal, match="points outside the folder"):
            content_tree.unpack(archive, folder, None)
        os.close(folder)


def test_files_that_should_not_be_public_are_named() -> None:
    target = io.BytesIO()
    found = packed(zipped({"index.html": "", ".env": "", "backup/dump.sql": ""}), target)
    (note,) = found.notes
    assert ".env, backup/dump.sql" in note
