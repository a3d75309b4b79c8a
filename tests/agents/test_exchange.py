"""Two folders exchanged in one step, and by renames where the file system cannot do that."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agents.host import exchange


@pytest.fixture
def folders(tmp_path: Path) -> tuple[int, int]:
    """Open folders `store` with the entry new, and `above` with the entry site."""
    for folder, entry in (("store", "new"), ("above", "site")):
        (tmp_path / folder / entry).mkdir(parents=True)
        (tmp_path / folder / entry / "index.html").write_text(entry)
    return tuple(os.open(tmp_path / name, os.O_RDONLY) for name in ("store", "above"))  # type: ignore[return-value]


@pytest.mark.parametrize("number", [0, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_folders_change_places(
    tmp_path: Path, folders: tuple[int, int], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    if number:
        monkeypatch.setattr(exchange, "_renameat2", lambda *_: number)
    store, above = folders
    assert exchange.exchange("new", store, "site", above) is (number == 0)
    assert (tmp_path / "above/site/index.html").read_text() == "new"
    assert (tmp_path / "store/new/index.html").read_text() == "site"
    assert os.listdir(store) == ["new"] and os.listdir(above) == ["site"]


def test_other_errors_change_nothing(tmp_path: Path, folders: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_renameat2", lambda *_: errno.EACCES)
    store, above = folders
    with pytest.raises(PermissionError):
        exchange.exchange("new", store, "site", above)
    assert (tmp_path / "above/site/index.html").read_text() == "site"
