"""Availability of a suite on a host: the configurations and cases that can run there, and their expected duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import ngettext

from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.choosing import Choice, check_setups, duration_words, expected_s, protocols
from panel.benchmarks.suites.definitions import PRESETS, PROTOCOLS, Case, PresetName, Setup, Suite, speaking
from panel.benchmarks.testbeds.layout import able
from panel.benchmarks.testbeds.lifecycle import program
from panel.core.errors import ApplicationError
from panel.hosts.models import Engine, Host, WebServer


@dataclass(frozen=True)
class Availability:
    """The configurations and cases of a suite that can run on a host.
    `setups`: the available configurations, each with its web server. `left_out`: reasons why other configurations
    cannot run. `cases`: the cases that the available configurations support.
    """

    setups: list[tuple[Setup, WebServer]]
    left_out: list[str]
    cases: list[Case]


def available_setups(
    suite: Suite, preset: PresetName, host: Host, setups: Sequence[str], choice: Choice
) -> Availability:
    """Return the configurations and cases of the chosen part of a suite that can run on `host`.
    No `setups` means all configurations. ApplicationError if the choice is invalid or nothing can run.
    """
    chosen = choice.of(suite, preset)
    check_setups(suite, setups)
    available, left_out = _available(suite, host, setups)
    if not available and setups:
        raise ApplicationError(" ".join(left_out), field="setups")
    if not available:
        raise ApplicationError(f"{host.name} has none of the suite's web servers. {' '.join(left_out)}", field="host")
    usable = [setup for setup, _ in available]
    cases = [case for case in chosen if speaking(case, usable)]
    if not cases:
        names = "; ".join(setup.label for setup in usable)
        spoken = ", ".join(PROTOCOLS[name] for name in protocols(chosen))
        words = f"These web servers on {host.name} do not support {spoken}, which the cases need: {names}."
        raise ApplicationError(words, field="protocols")
    return Availability(available, left_out, cases)


def presets_expected(
    slug: str, setups: Sequence[str] = (), choice: Choice | None = None, host: Host | None = None
) -> list[tuple[str, str]]:
    """Return pairs (preset, text), one for each preset: full suite and preview. The text has the number and duration of
    the chosen cases on `host`, or the reason why the preset cannot run there. Without a host, all web servers of the
    suite are assumed.
    """
    found: list[tuple[str, str]] = []
    for name in PRESETS:
        try:
            count, seconds = expected(slug, name, setups, choice or Choice(), host)
        except ApplicationError as error:
            found.append((name, error.message))
            continue
        words = ngettext("%(count)d case, %(takes)s", "%(count)d cases, %(takes)s", count)
        found.append((name, words % {"count": count, "takes": duration_words(seconds)}))
    return found


def expected(
    slug: str, preset: PresetName, setups: Sequence[str], choice: Choice, host: Host | None
) -> tuple[int, float]:
    """Return the number of chosen cases and their estimated total duration in seconds, from the published figures.
    ApplicationError as in `available_setups`.
    """
    suite = SUITES[slug]
    if host is not None:
        taking = available_setups(suite, preset, host, setups, choice)
        usable, cases = [setup for setup, _ in taking.setups], taking.cases
    else:
        check_setups(suite, setups)
        usable = [setup for setup in suite.setups if not setups or setup.slug in setups]
        cases = [case for case in choice.of(suite, preset) if speaking(case, usable)]
    return len(cases), sum(
        expected_s(suite, case, [setup.published for setup in speaking(case, usable)]) for case in cases
    )


def _available(definition: Suite, host: Host, chosen: Sequence[str]) -> tuple[list[tuple[Setup, WebServer]], list[str]]:
    """Return the configurations whose web server the host has, and the reasons why other configurations are
    left out.
    """
    web_servers: dict[str, WebServer] = {}
    for web_server in host.web_servers.order_by("-pk"):
        if web_server.engine not in web_servers or web_server.label == "default":
            web_servers[web_server.engine] = web_server
    available: list[tuple[Setup, WebServer]] = []
    lacking: dict[str, list[str]] = {}
    for setup in definition.setups:
        if chosen and setup.slug not in chosen:
            continue
        found = web_servers.get(setup.engine)
        lacks = _lacks(setup, host) if found else f"{host.name} has no {Engine(setup.engine).label}."
        if found and not lacks:
            available.append((able(setup, program(found)), found))
        else:
            lacking.setdefault(lacks, []).append(setup.label)
    return available, [_left_out(labels, lacks) for lacks, labels in lacking.items()]


def _left_out(labels: list[str], lacks: str) -> str:
    if len(labels) == 1:
        return f"{labels[0]} is skipped: {lacks}"
    return f"{'; '.join(labels[:-1])} and {labels[-1]} are skipped: {lacks}"


def _lacks(setup: Setup, host: Host) -> str:
    """Describe what the host lacks to run the configuration's PHP; "" if it lacks nothing."""
    if setup.php == "fpm":
        return ""
    if not host.facts.get("lsphp"):
        return (
            f"lsphp was not found on {host.name}, neither in the web server's folder (lsphp83/bin/lsphp) "
            "nor in PATH. Install lsphp, then check the host."
        )
    # lsphp serves every local client, so it gets its own network namespace.
    if setup.php == "lsphp-tcp" and host.facts.get("uid") not in (0, None):
        return (
            f"this configuration needs a network namespace, and Paddock needs root on "
            f"{host.name} to create the namespace."
        )
    return ""
