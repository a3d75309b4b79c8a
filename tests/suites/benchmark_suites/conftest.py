"""The fixtures of the benchmark tests."""

from __future__ import annotations

from tests.benchmarks.conftest import admin, host, install, operator, team, viewer  # noqa: F401
