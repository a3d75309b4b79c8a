"""Places that list the load tools (docs/contributing/add-a-load-tool.md). A failure names the file without a tool."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from agents.host.load_tools import BUNDLED, LOAD_TOOLS, PROGRAMS
from panel.accounts.selectors import LOAD_TOOLS as PACKAGES
from panel.benchmarks.choices import Tool
from panel.benchmarks.tools import commands
from panel.benchmarks.tools.arguments import TOOLS, clean
from tests.benchmarks.tool_recorder import CASES

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("tool", list(Tool))
def test_load_tool_is_in_every_list(tool: Tool) -> None:
    assert tool in TOOLS, "panel/benchmarks/tools/arguments.py"
    assert tool in LOAD_TOOLS, "agents/host/load_tools.py"
    assert tool in PACKAGES, "panel/accounts/selectors.py"


def test_agent_runs_the_panels_tools_only() -> None:
    assert set(LOAD_TOOLS) == set(Tool.values)
    assert set(PROGRAMS) == {*Tool.values, BUNDLED}
    assert commands.BUNDLED == BUNDLED


@pytest.mark.parametrize("tool", list(Tool))
def test_load_tool_is_installed_for_tests(tool: Tool) -> None:
    packages = (ROOT / "scripts" / "deps.sh").read_text()
    assert f"{tool}:{PACKAGES[tool]}" in packages.split('TEST="')[1].split('"')[0].split(), "scripts/deps.sh"
    assert shutil.which(tool), "make deps"


@pytest.mark.parametrize("tool", list(Tool))
def test_load_tool_is_described_in_guides(tool: Tool) -> None:
    guide = (ROOT / "docs" / "guide" / "benchmarks.md").read_text()
    assert re.search(rf"^\| {tool} \|", guide, re.MULTILINE), "docs/guide/benchmarks.md"
    (installed,) = re.findall(r"`apt-get install ([^`]+)`", guide.split("## What happens")[0])
    assert PACKAGES[tool] in installed.split(), "docs/guide/benchmarks.md"
    assert re.search(rf"\*\*Benchmarks that hold\.\*\* [^.]*\b{tool}\b", (ROOT / "README.md").read_text()), "README.md"


@pytest.mark.parametrize("tool", list(Tool))
def test_load_tool_output_is_recorded(tool: Tool) -> None:
    """Of a success, of refused connections and of connections that are dropped."""
    names = [name for name in CASES if name.split("-")[0] == tool]
    assert {f"{tool}-refused", f"{tool}-dropped"} < set(names), "tests/benchmarks/tool_recorder.py"
    assert all((DATA / f"{name}.json").exists() for name in names), "python -m tests.benchmarks.tool_recorder"


@pytest.mark.parametrize("name", CASES)
def test_recorded_command_is_still_built(name: str) -> None:
    """After a change of a command, its output has to be recorded again."""
    tool, raw, paths = CASES[name]
    argv = json.loads((DATA / f"{name}.json").read_text())["argv"]
    tls = bool(raw.get("tls"))
    endpoint = commands.Endpoint("127.0.0.1", 1, "a.example", tls)
    built = commands.command(tool, clean(tool, raw), paths, endpoint).argv
    assert [re.sub(r":\d+", ":1", part) for part in argv] == built
