"""The rendered files of each case equal the reviewed ones; `--update-golden` rewrites them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from panel.rendering import render, render_web_server
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, from_json, to_json
from tests.rendering.cases import CASES, WEB_SERVERS

GOLDEN = Path(__file__).resolve().parent
Case = Callable[[], SiteSpec]


def expected_files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def rendered_files(spec: SiteSpec, engine: str) -> dict[str, str]:
    """Texts by path; "refused.txt" for a site that the engine cannot serve as it is meant."""
    try:
        files = [*render(spec, WEB_SERVERS[engine]), *render_web_server([spec], WEB_SERVERS[engine])]
    except NotExpressible as error:
        return {"spec.json": _json(spec), "refused.txt": f"{error.field}: {error.message}\n"}
    texts = {f"files{file.path}": f"-> {file.link_target}\n" if file.link_target else file.text for file in files}
    return {"spec.json": _json(spec), **texts}


def _json(spec: SiteSpec) -> str:
    return json.dumps(to_json(spec), indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("engine", WEB_SERVERS)
def test_rendered_files_match_golden_files(engine: str, case: Case, request: pytest.FixtureRequest) -> None:
    folder = GOLDEN / engine / case.__name__
    rendered = rendered_files(case(), engine)
    if request.config.getoption("--update-golden"):
        for old in expected_files(folder):
            (folder / old).unlink()
        for name, text in rendered.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    assert rendered == expected_files(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_site_spec_round_trips_through_json(case: Case) -> None:
    assert from_json(SiteSpec, json.loads(json.dumps(to_json(case())))) == case()
