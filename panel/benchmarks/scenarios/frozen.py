"""Conversion of a scenario to the parameters that a run stores."""

from __future__ import annotations

from panel.benchmarks.models import Scenario
from panel.benchmarks.records import Parameters


def parameters_of(scenario: Scenario) -> Parameters:
    return {
        "name": scenario.name,
        "tool": scenario.tool,
        "arguments": scenario.arguments,
        "paths": scenario.paths,
        "rounds": scenario.rounds,
        "warmup_s": scenario.warmup_s,
        "timeout_s": scenario.timeout_s,
        "allowed_error_percent": scenario.allowed_error_percent,
    }
