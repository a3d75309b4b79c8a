"""The chosen part of a suite: cases, protocols, application, and network link. An empty choice means all cases and
protocols, the suite's first application, and the links of its cases.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from panel.benchmarks.choices import Tool
from panel.benchmarks.suites import links, published
from panel.benchmarks.suites.definitions import (
    PROTOCOLS,
    Application,
    Case,
    Network,
    PresetName,
    Suite,
    stored_network,
)
from panel.benchmarks.tools.arguments import ArgumentError, clean_paths
from panel.core.errors import ApplicationError


@dataclass(frozen=True)
class Choice:
    """The parts of a suite that a user chose to run.

    `cases` are ids of published cases (`small-multiplexed`), rows of their tables (`small-multiplexed-0`), or slugs of
    single cases. `paths` replace the application's own list of paths. `network` replaces the links of all cases. `link`
    is the link emulation, a key of links.CARRIERS. `load_from` is the name of the load generator's host.
    """

    cases: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    application: str = ""
    paths: tuple[str, ...] = ()
    network: Network | None = None
    link: str = ""
    load_from: str = ""

    @property
    def is_part(self) -> bool:
        return bool(self.cases or self.protocols)

    def stored(self) -> dict[str, object]:
        """Return the choice as JSON; empty for the whole suite with its default application and its published links."""
        parts = {"cases": list(self.cases), "protocols": list(self.protocols)} if self.is_part else {}
        named = {"application": self.application} if self.application else {}
        paths = {"paths": list(self.paths)} if self.paths else {}
        network = {"network": asdict(self.network)} if self.network else {}
        from_host = {"load_from": self.load_from} if self.load_from else {}
        return {**parts, **named, **paths, **network, **({"link": self.link} if self.link else {}), **from_host}

    def settled(self, suite: Suite) -> Choice:
        """Return the choice in canonical form: sorted, and with the slug of the default application instead of "".
        Two choices with the same effect have the same canonical form.
        """
        application = suite.application(self.application)
        named = application.slug if application else ""
        cases, protocols = tuple(sorted(self.cases)), tuple(sorted(self.protocols))
        return replace(self, cases=cases, protocols=protocols, application=named)

    def of(self, suite: Suite, preset: PresetName) -> tuple[Case, ...]:
        """Return the cases of the preset that this choice selects, with the chosen application and network link.

        ApplicationError if the preset lacks a chosen case or protocol, and for invalid paths or an impossible link.
        """
        application = self._application(suite)
        links.check_carrier(self.link)
        cases = self._picked(suite, suite.cases(preset))
        if self.network is not None:
            cases = links.over(self.network, cases)
        if self.paths and not any(case.browses for case in cases):
            raise ApplicationError("These cases use no application. Leave the list of paths empty.", field="paths")
        if application is None:
            return cases
        paths = tuple(_checked(self.paths)) or application.paths
        return tuple(_browsing(case, application, paths, preset) if case.browses else case for case in cases)

    def _application(self, suite: Suite) -> Application | None:
        found = suite.application(self.application)
        if found is None and self.application:
            known = ", ".join(item.slug for item in suite.applications)
            why = f"Known applications: {known}." if known else "The cases of this suite request files."
            raise ApplicationError(f"The suite has no application “{self.application}”. {why}", field="application")
        return found

    def _picked(self, suite: Suite, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        for name in self.cases:
            if not any(name in _names(case) for case in cases):
                known = ", ".join(dict.fromkeys(_called(suite, case.source) for case in cases))
                words = f"This preset has no case {_called(suite, name)}. Known cases: {known}."
                raise ApplicationError(words, field="cases")
        for name in self.protocols:
            if not any(case.protocol == name for case in cases):
                known = ", ".join(protocols(cases))
                raise ApplicationError(
                    f"No case of this preset uses the protocol “{name}”. Known protocols: {known}.", field="protocols"
                )
        found = tuple(
            case
            for case in cases
            if (not self.cases or not _names(case).isdisjoint(self.cases))
            and (not self.protocols or case.protocol in self.protocols)
        )
        if not found:
            raise ApplicationError(
                "The selection is empty: none of the selected cases uses these protocols.", field="cases"
            )
        return found

    def words(self, suite: Suite) -> str:
        """Describe the chosen cases and protocols in words; "" if none are chosen."""
        parts = [title(suite, name) for name in self.cases]
        parts += [PROTOCOLS[name] for name in self.protocols]
        return "; ".join(parts)

    def application_words(self, suite: Suite) -> str:
        """Describe the application and its custom paths in words; "" for a suite without an application."""
        found = suite.application(self.application)
        if found is None:
            return ""
        if not self.paths:
            return found.label
        count = len(self.paths)
        return f"{found.label}, {count} custom paths" if count > 1 else f"{found.label}, a custom path"


def stored_choice(data: dict[str, Any]) -> Choice:
    """Convert JSON of `Choice.stored` back to a Choice."""
    return Choice(
        tuple(data.get("cases", ())),
        tuple(data.get("protocols", ())),
        data.get("application", ""),
        tuple(data.get("paths", ())),
        stored_network(data.get("network")),
        data.get("link", ""),
        data.get("load_from", ""),
    )


def _browsing(case: Case, application: Application, paths: tuple[str, ...], preset: PresetName) -> Case:
    if preset == "full":
        return replace(case, paths=paths)
    arguments = {**case.arguments, "duration_s": application.short_duration_s}
    return replace(case, paths=paths, arguments=arguments, warmup_s=application.short_warmup_s)


def _checked(paths: Sequence[str]) -> list[str]:
    """Validate and return custom paths of an application; ApplicationError with field `paths` for an invalid path."""
    try:
        return clean_paths(Tool.SIEGE, list(paths)) if paths else []
    except ArgumentError as error:
        raise ApplicationError(" ".join(error.errors.values()), field="paths") from error


def check_setups(suite: Suite, setups: Sequence[str]) -> None:
    """Raise ApplicationError with field `setups` if the suite lacks one of the configurations."""
    known = [setup.slug for setup in suite.setups]
    for slug in setups:
        if slug not in known:
            raise ApplicationError(
                f"The suite has no configuration “{slug}”. Known configurations: {', '.join(known)}.", field="setups"
            )


def _names(case: Case) -> set[str]:
    """Return the names by which a user can choose a case: its published id, its row in the table, and its slug."""
    return {case.source, case.slug, case.slug.removesuffix(f"-{case.protocol}")}


def title(suite: Suite, name: str) -> str:
    """Return the title of the cases that `name`, an entry of `Choice.cases`, selects; `name` itself if it selects no
    case.
    """
    case = next((case for case in (*suite.full, *suite.short) if name in _names(case)), None)
    if case is None:
        return name
    if name == case.source and case.group:
        return case.group
    # A row of a published table is several cases, one for each protocol.
    return case.title if name == case.slug else case.title.removesuffix(f", {PROTOCOLS[case.protocol]}")


def _called(suite: Suite, name: str) -> str:
    """Format the name of a case for an error message: `“Small page, ten concurrent streams” (small-multiplexed)`."""
    words = title(suite, name)
    return f"“{name}”" if words == name else f"“{words}” ({name})"


def protocols(cases: Iterable[Case]) -> list[str]:
    """Return the distinct protocols of the cases, in the order of the cases."""
    return list(dict.fromkeys(case.protocol for case in cases))


def groups(cases: Sequence[Case]) -> dict[str, str]:
    """Return {id of a published case: its title} for the published cases to which `cases` belong."""
    found: dict[str, str] = {}
    for case in cases:
        found.setdefault(case.source, case.group or case.title)
    return found


def described(suite: Suite, preset: str, choice: Choice, servers: Sequence[str]) -> list[tuple[str, str]]:
    """Describe the chosen part of a suite as pairs of label and text, for example ("Application", "WordPress").
    `servers` are names of web servers; empty means all on the host.
    """
    found = [("Suite", f"{suite.title}, {'full suite' if preset == 'full' else 'preview'}")]
    found += [("Part", words)] if (words := choice.words(suite)) else []
    found += [("Application", words)] if (words := choice.application_words(suite)) else []
    found += [("Link", choice.network.words)] if choice.network else []
    found += [("Link emulation", f"{links.CARRIERS[choice.link]}")] if choice.link else []
    found += [("Host of the load generator", choice.load_from)] if choice.load_from else []
    return [*found, ("Web servers", ", ".join(servers) or "all on the host")]


# --- how long it takes ---

# Time to start the servers and the link, measure the link, compare the responses twice, and stop everything.
_TESTBED_S = 8.0
_SHAPED_S = 4.0
_UNKNOWN_S = 10.0


def expected_s(suite: Suite, case: Case, servers: Sequence[str]) -> float:
    """Return the estimated duration of a case in seconds, from the published figures. `servers` are the names that the
    publication uses for the configurations.
    """
    rounds = sum(_load_s(suite, case, name) + 2 * case.idle_s for name in servers) * case.rounds
    warming = (case.warmup_s + 1.0) * len(servers) if case.warmup_s else 0.0
    return _TESTBED_S + (_SHAPED_S if case.network else 0.0) + warming + rounds


def _load_s(suite: Suite, case: Case, server: str) -> float:
    duration, requests = case.arguments.get("duration_s"), case.arguments.get("requests")
    if duration or not requests:
        return float(duration or _UNKNOWN_S)
    figure = _published(suite, case, server)
    said = 0.0
    if figure and case.as_published:
        said = figure if case.figure == "total_s" else int(requests) / figure
    return max(said, links.least_s(case, int(requests))) or _UNKNOWN_S


def _published(suite: Suite, case: Case, server: str) -> float | None:
    """Return the published figure of the server in a case. If there is none, return the median of the figures that the
    case has for other servers; None if the case has no figures.
    """
    own = published.value(suite.slug, case.source, case.row, server)
    if own is not None:
        return own
    found = [published.value(suite.slug, case.source, case.row, name) for name in published.servers(suite.slug)]
    known = [value for value in found if value]
    return statistics.median(known) if known else None


def duration_words(seconds: float) -> str:
    """Format a duration for people: "about 50 s", "about 12 min"."""
    if seconds < 90:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    if seconds < 100 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
