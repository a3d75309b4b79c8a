"""Places that list the web servers (docs/contributing/add-a-web-server.md). A failure names the file without one."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from agents.host import certificate_names, request, testbed_servers, workers
from panel import rendering
from panel.benchmarks.runs import targets
from panel.benchmarks.testbeds import main_files
from panel.hosts.models import Engine
from panel.imports import mapping, sources
from panel.imports.mapping import common
from panel.rendering import capabilities, snippets, unread
from panel.rendering.readers import engines as readers
from panel.rendering.spec import ENGINE_NAMES
from tests.agents import test_unprivileged_workers
from tests.rendering import escaping, test_allowed_directives, test_raw_directives
from tests.rendering.cases import WEB_SERVERS, static
from tests.suites.conformance import servers, table

ROOT = Path(__file__).resolve().parents[2]
OF_NGINX = {"native"}  # gallop reads nginx's directives and is tested with them
LISTS = {
    "panel/rendering/spec.py (EngineName)": ENGINE_NAMES,
    "panel/rendering/__init__.py (ENGINES)": rendering.ENGINES,
    "panel/rendering/capabilities.py (OFFERS)": capabilities.OFFERS,
    "panel/rendering/snippets.py (POLICIES)": snippets.POLICIES,
    "panel/rendering/readers/engines.py (READERS)": readers.READERS,
    "panel/rendering/unread.py (DECIDING)": unread.DECIDING,
    "panel/imports/mapping/__init__.py (MAPPERS)": mapping.MAPPERS,
    "panel/imports/mapping/common.py (PRINTERS)": common.PRINTERS,
    "panel/imports/sources.py (MAINS)": sources.MAINS,
    "panel/imports/sources.py (USUAL_ROOTS)": sources.USUAL_ROOTS,
    "panel/benchmarks/runs/targets.py (PROCESSES)": targets.PROCESSES,
    "panel/benchmarks/testbeds/main_files.py (BUILDERS)": main_files.BUILDERS,
    "agents/host/request.py (ENGINES)": request.ENGINES,
    "agents/host/workers.py (ROOT_ACCOUNT)": workers.ROOT_ACCOUNT,
    "agents/host/certificate_names.py (READERS)": certificate_names.READERS,
    "tests/rendering/cases.py (WEB_SERVERS)": WEB_SERVERS,
    "tests/rendering/escaping.py (WEB_SERVERS)": {row.engine for row in escaping.WEB_SERVERS.values()},
    "tests/rendering/test_raw_directives.py (DANGEROUS)": OF_NGINX | test_raw_directives.DANGEROUS.keys(),
    "tests/rendering/test_raw_directives.py (UNBALANCED)": OF_NGINX | test_raw_directives.UNBALANCED.keys(),
    "tests/rendering/test_raw_directives.py (HARMLESS)": OF_NGINX | test_raw_directives.HARMLESS.keys(),
    "tests/rendering/test_allowed_directives.py (ENGINES)": OF_NGINX.union(test_allowed_directives.ENGINES),
    "tests/agents/test_unprivileged_workers.py (MAINS)": {engine for engine, _text in test_unprivileged_workers.MAINS},
    "tests/suites/conformance/servers.py (KINDS)": servers.KINDS,
    "tests/suites/conformance/table.py (LABELS)": table.LABELS,
}
INSTALLED_BY_PANEL = {Engine.NATIVE}  # the panel registers these itself, so the agent does not look for them
NAMES_IN_DOCUMENTS = {Engine.APACHE: "Apache"}


@pytest.mark.parametrize("place", LISTS)
def test_list_names_every_web_server_and_no_other(place: str) -> None:
    assert set(LISTS[place]) == set(Engine.values), place


@pytest.mark.parametrize("engine", Engine)
def test_agent_controls_web_server(engine: Engine) -> None:
    server = importlib.import_module(f"agents.host.engines.{engine.value}").Server
    for method in ("test_argv", "start_argv", "is_replaced"):
        assert method in vars(server), f"agents/host/engines/{engine.value}.py"


@pytest.mark.parametrize("engine", Engine)
def test_agent_finds_web_server_on_hosts(engine: Engine) -> None:
    source = (ROOT / "agents" / "host" / "detect.py").read_text()
    assert (f'_made("{engine.value}"' in source) != (engine in INSTALLED_BY_PANEL), "agents/host/detect.py"


@pytest.mark.parametrize("engine", Engine)
def test_agent_runs_web_server_in_test_beds(engine: Engine) -> None:
    assert engine in testbed_servers.PROGRAMS, "agents/host/testbed_servers.py (PROGRAMS, _argv)"


@pytest.mark.parametrize("engine", Engine)
def test_site_is_rendered_into_web_servers_own_files(engine: Engine) -> None:
    """The plainest site can be deployed; the server says whether it has files that depend on all sites."""
    web_server, spec = WEB_SERVERS[engine], static()
    files = rendering.render(spec, web_server)
    assert files and all(file.path.startswith(f"{web_server.config_root}/") for file in files)
    shared = rendering.render_web_server([spec], web_server)
    is_shared = rendering.shares_files(engine)
    assert bool(shared) == is_shared, f"SHARES_FILES of panel/rendering for {engine}"
    assert rendering.render_main(web_server)


@pytest.mark.parametrize("engine", Engine)
def test_web_server_has_golden_files(engine: Engine) -> None:
    assert (ROOT / "tests" / "suites" / "golden" / engine.value / "static" / "spec.json").exists(), "--update-golden"


@pytest.mark.parametrize("engine", Engine)
def test_web_server_has_allowed_raw_directives_and_reasons(engine: Engine) -> None:
    policy = snippets.POLICIES[engine]
    assert policy.allowed and policy.refused, "panel/rendering/NAME/policy.py"
    assert policy.read is readers.READERS[engine], "policy.py and readers/engines.py name two readers"
    assert not snippets.check("", WEB_SERVERS[engine])


@pytest.mark.parametrize("engine", Engine)
def test_web_server_is_named_in_documents(engine: Engine) -> None:
    name = NAMES_IN_DOCUMENTS.get(engine, str(engine.label))
    for path in ("README.md", "docs/guide/hosts.md", "docs/engines.md"):
        assert re.search(rf"\b{re.escape(name)}\b", (ROOT / path).read_text()), path
