"""The fixtures of the benchmark tests."""

from __future__ import annotations

from tests.benchmarks.conftest import admin, host, operator, team, viewer, web_server  # noqa: F401
