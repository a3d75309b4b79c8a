"""Published benchmarks as data: configurations of web servers, requests, and published figures."""

from __future__ import annotations

from panel.benchmarks.suites import http3, php, static_files
from panel.benchmarks.suites.definitions import Suite

SUITES: dict[str, Suite] = {suite.slug: suite for suite in (http3.SUITE, static_files.SUITE, php.SUITE)}
