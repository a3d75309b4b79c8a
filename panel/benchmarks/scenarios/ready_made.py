"""Predefined scenarios, which the page of scenarios offers if no scenario exists yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_lazy as _

from panel.benchmarks.choices import Tool


@dataclass(frozen=True)
class Quick:
    slug: str
    name: str
    why: Any
    tool: Tool
    arguments: dict[str, object] = field(default_factory=dict)
    rounds: int = 3
    warmup_s: int = 2

    def values(self) -> dict[str, object]:
        """Return the fields of the predefined scenario as keyword arguments for `scenario_create`."""
        return {
            "name": self.name,
            "tool": self.tool.value,
            "arguments": self.arguments,
            "paths": ["/"],
            "rounds": self.rounds,
            "warmup_s": self.warmup_s,
        }


QUICK = (
    Quick(
        "ab-keep-alive",
        "Quick check: ab, keep-alive, 10 s",
        _("Requests one page over ten keep-alive connections."),
        Tool.AB,
        {"concurrency": 10, "duration_s": 10, "keepalive": True},
    ),
    Quick(
        "ab-new-connections",
        "New connections: ab 10 s",
        _("Opens a new connection for every request to measure connection setup."),
        Tool.AB,
        {"concurrency": 10, "duration_s": 10, "keepalive": False},
    ),
    Quick(
        "wrk-throughput",
        "Throughput: wrk 64 connections 10 s",
        _("Uses a tool with low CPU use, so the web server is the bottleneck."),
        Tool.WRK,
        {"concurrency": 64, "threads": 1, "duration_s": 10},
        rounds=6,
    ),
    Quick(
        "h2load-latency",
        "Latency: h2load 16 connections 10 s",
        _("Records every latency to the microsecond, including the slowest."),
        Tool.H2LOAD,
        {"concurrency": 16, "duration_s": 10, "protocol": "h1"},
        rounds=6,
    ),
    Quick(
        "siege-users",
        "Users: siege, 15 users, 20 s",
        _("Simulates users of an application and records the longest wait."),
        Tool.SIEGE,
        {"concurrency": 15, "duration_s": 20, "keepalive": False, "dynamic": True},
    ),
)
BY_SLUG = {quick.slug: quick for quick in QUICK}
