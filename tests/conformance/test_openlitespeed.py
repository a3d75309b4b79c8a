"""OpenLiteSpeed takes part where an installation is named; what can be tested without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.concerned import Met
from tests.conformance.explained import Case, explanation
from tests.conformance.servers import ENGINES, OPENLITESPEED, engines
from tests.conformance.wire import Answer, Request
from tests.support.openlitespeed import VARIABLE, OpenLiteSpeedInstance


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out as an installation is."""
    folder = tmp_path / "lsws"
    for name in ("bin/openlitespeed", "conf/httpd_config.conf", "conf/mime.properties", "modules/conf/cache.so"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def test_it_takes_part_where_the_environment_names_one(installed: Path) -> None:
    assert engines() == [*ENGINES, OPENLITESPEED]


def test_without_the_environment_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert engines() == list(ENGINES)


def test_a_wrong_folder_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(AssertionError, match="holds no bin/openlitespeed"):
        engines()


def test_the_copy_has_a_configuration_of_its_own(installed: Path, tmp_path: Path) -> None:
    server = OpenLiteSpeedInstance(tmp_path / "copy")
    assert Path(server.binary).read_text() == "bin/openlitespeed"
    assert (server.root / "modules" / "conf" / "cache.so").exists()
    assert (server.root / "conf" / "mime.properties").exists()
    assert not server.main_config.exists()
    assert server.paths["config_root"] == str(server.root / "conf")


def test_only_sites_that_it_says_exactly_are_compared() -> None:
    asked = (Request("/"), Answer(200, {}, b"a"), Answer(404, {}, b"b"))
    assert explanation("openlitespeed", Case(*asked, Met(frozenset({"it has no variables in headers"}))))
    assert not explanation("openlitespeed", Case(*asked))
