"""OpenLiteSpeed in the conformance suite: takes part where an installation is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.explain import Request as Question
from panel.rendering.explain import explain
from panel.rendering.spec import (
    Header,
    Listen,
    Location,
    ServerBlock,
    SiteSpec,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)
from tests.rendering.cases import CASES
from tests.suites.conformance.explained import Case, explanation, fixed
from tests.suites.conformance.explained.equivalent_requests import twins
from tests.suites.conformance.explained.openlitespeed import ROWS
from tests.suites.conformance.fixed_cases import CASES as FIXED
from tests.suites.conformance.generator import generate
from tests.suites.conformance.request_differences import Met
from tests.suites.conformance.servers import ENGINES, OPENLITESPEED, engines
from tests.suites.conformance.wire import Answer, Request
from tests.suites.conformance.world import World
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


def test_openlitespeed_takes_part_when_environment_names_it(installed: Path) -> None:
    assert engines() == [*ENGINES, OPENLITESPEED]


def test_openlitespeed_is_left_out_without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert engines() == list(ENGINES)


def test_wrong_openlitespeed_folder_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(AssertionError, match="holds no bin/openlitespeed"):
        engines()


def test_openlitespeed_copy_has_own_configuration(installed: Path, tmp_path: Path) -> None:
    server = OpenLiteSpeedInstance(tmp_path / "copy")
    assert Path(server.binary).read_text() == "bin/openlitespeed"
    assert (server.root / "modules" / "conf" / "cache.so").exists()
    assert (server.root / "conf" / "mime.properties").exists()
    assert not server.main_config.exists()
    assert server.paths["config_root"] == str(server.root / "conf")


def test_documented_difference_excuses_only_its_response() -> None:
    shown = frozenset({"OpenLiteSpeed adds “public” to the Cache-Control header of files"})
    request, plain = Request("/"), Answer(200, {"cache-control": "max-age=60", "expires": "x"}, b"a")

    def name(other: Answer, *texts: str) -> str:
        return explanation("openlitespeed", Case(request, plain, other, Met(frozenset(texts))))

    public = {**plain.headers, "cache-control": "public, max-age=60"}
    assert name(Answer(200, public, b"a"), *shown) == "public"
    assert not name(Answer(200, public, b"a"))
    assert not name(Answer(200, public, b"b"), *shown)
    assert not name(Answer(404, public, b"a"), *shown)


def test_status_400_after_body_is_excused_only_for_long_bodies() -> None:
    page = b'<html style="height:100%">'

    def name(body: str, *added: Header) -> str:
        place = Location("", "/", "proxy", upstream="app", request_headers=added)
        app = Upstream("app", (UpstreamServer("127.0.0.1:8000"),))
        spec = SiteSpec("a", (ServerBlock((Listen(80),), locations=(place,)),), upstreams=(app,))
        where = explain([spec], Question("http", "a.test", 80, "/"))
        before = Request("/", "POST", body=body), Met(spec=spec, explained=where)
        return explanation("openlitespeed", Case(Request("/"), Answer(200), Answer(400, {}, page), before=before))

    assert name("x" * 20, Header("X-Own", "a")) == "after a body"
    assert not name("x", Header("X-Own", "a"))
    assert not name("x" * 20)


def test_documented_differences_combine() -> None:
    request = Request("/none#a", "PUT")
    twin = twins(request)[-1]
    refused, missing = Answer(405), Answer(404, {}, b"<center>nginx</center>")
    case = Case(
        request, Answer(405), Answer(404, {}, b'<html style="height:100%">'), Met(), ((twin, refused, missing, Met()),)
    )
    assert explanation("openlitespeed", case) == "fragment and methods of files"


def test_each_row_of_a_site_is_shown_in_the_editor(tmp_path: Path) -> None:
    """Every row that depends on the site is a message of the editor for some site."""
    web_server = WebServerSpec("openlitespeed", "vhosts", "/srv/lsws/conf", "/srv/lsws/log")
    www = f"{tmp_path}/www"
    world = World(8080, www, "127.0.0.1:8000", f"unix:{tmp_path}/php.sock")
    specs = [item.spec for item in generate(world, sites=150, requests=1, chance=3)]
    specs += [case() for case in CASES] + [case(world)[0] for case in FIXED]
    shown = {item.what for spec in specs for item in differences(spec, web_server)}
    unshown = [row.name for row in ROWS if row.shown and not any(text.startswith(row.shown) for text in shown)]
    assert unshown == []


def test_excused_fixed_cases_name_documented_difference() -> None:
    assert all(fixed.known(item.row) for items in fixed.CASES.values() for item in items)
