"""Builder of a report's document from an ended run or suite run. Only reads; services.py stores reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.urls import reverse

from panel.benchmarks import selectors
from panel.benchmarks.charts import pictures
from panel.benchmarks.models import Run, RunStatus, SuiteRun, SuiteStatus
from panel.benchmarks.records import FigureEstimate, HostFacts, Summary
from panel.benchmarks.runs import change_texts, results, run_changes
from panel.benchmarks.statistics.summary import BY_NAME, FIGURES
from panel.benchmarks.suites import SUITES, choosing
from panel.benchmarks.suites import comparing as suite_comparing
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.tables import Table as SuiteTable
from panel.core.charts import Chart
from panel.hosts.models import Engine
from panel.reports import headline
from panel.reports.document import Cell, Document, Picture, Section, Table, picture
from panel.reports.headline import Top

EARLIER_RUNS = 100
EARLIER_SUITES = 20


def when(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""


def _link(name: str, uuid: Any) -> str:
    return f"{settings.PANEL_URL}{reverse(name, args=[uuid])}" if settings.PANEL_URL else ""


def document_of(run: Run | None, suite_run: SuiteRun | None, notes: Sequence[str]) -> Document:
    """Build the content of a report from a run or a suite run; `notes` are remarks on the schedule's dates."""
    if run is not None:
        return run_document(run, notes)
    assert suite_run is not None, "a report belongs to a run or to a suite"
    return suite_document(suite_run, notes)


# --- runs ---


def earlier_runs(run: Run) -> list[Run]:
    """Return earlier valid runs of the same scenario, with the same parameters and sites, oldest first; at most
    EARLIER_RUNS.
    """
    if run.scenario_id is None:
        return []
    sites = sorted(run.targets.values_list("site", flat=True))
    rows = Run.objects.filter(scenario=run.scenario_id, status=RunStatus.FINISHED, pk__lt=run.pk).order_by("-pk")
    found: list[Run] = []
    for row in rows.prefetch_related("targets")[: 3 * EARLIER_RUNS]:
        same = row.parameters == run.parameters and sorted(target.site_id or 0 for target in row.targets.all()) == sites
        if same and len(found) < EARLIER_RUNS:
            found.append(row)
    return found[::-1]


def run_document(run: Run, notes: Sequence[str]) -> Document:
    earlier = earlier_runs(run)
    before = earlier[-1] if earlier else None
    top, compared = _run_top(run, earlier)
    sections = [_figures(run), *_compared_section(compared)] if run.summary.get("targets") else []
    charts = [*_history(run, earlier), *(picture(chart) for chart in results.charts(run))]
    if sections and charts:
        sections.append(Section("Charts", pictures=charts))
    around = run_changes.around(run.fingerprint, before.fingerprint) if before and run.fingerprint else []
    return Document(
        title=run.title,
        made_at=when(run.finished_at),
        outcome=top.outcome,
        headline=top.headline,
        since=_since(before),
        changes=top.changes,
        around=_sentences(around),
        notes=list(notes),
        warnings=list(run.reasons),
        sections=sections,
        facts=_facts(run),
        link=_link("benchmarks:detail", run.uuid),
    )


def _sentences(found: Iterable[str]) -> list[str]:
    return [f"{words[0].upper()}{words[1:]}." for words in found]


def _since(before: Run | None) -> str:
    return f"the run of {when(before.finished_at)}" if before else ""


def _run_top(run: Run, earlier: Sequence[Run]) -> tuple[Top, list[run_changes.Change]]:
    if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
        return headline.of_failure(run.error or "The run was cancelled."), []
    if run.status == RunStatus.INVALID:
        return headline.of_invalid(run.reasons), []
    if not earlier:
        return headline.of_changes([], ""), []
    before = earlier[-1]
    known: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in earlier:
        _collect(known, row.summary)
    found = run_changes.changes(selectors.measured_rounds(run), selectors.measured_rounds(before), known)
    return headline.of_changes(found, _since(before)), found


def _collect(known: dict[tuple[str, str], list[float]], summary: Summary) -> None:
    for target in summary.get("targets", []):
        for name, figure in target["figures"].items():
            known[(target["label"], name)].append(figure["value"])


def _figures(run: Run) -> Section:
    targets = run.summary["targets"]
    rows = []
    for figure in FIGURES:
        found = [target["figures"].get(figure.name) for target in targets]
        if any(found):
            name = f"{figure.label} ({figure.unit})" if figure.unit else figure.label
            rows.append([Cell(name), *(_figure_cell(figure.name, value) for value in found)])
    head = ["Metric", *(target["label"] for target in targets)]
    note = "Median of all rounds with its confidence interval."
    remarks = [_verdict(words) for words in results.verdicts(run.summary)]
    remarks += results.remarks(selectors.measured_rounds(run))
    return Section("Figures", [Table("Figures", head, rows, note)], remarks=remarks)


def _figure_cell(name: str, found: FigureEstimate | None) -> Cell:
    if found is None:
        return Cell("–")
    figure = BY_NAME[name]
    interval = (
        "" if found["low"] is None else f"{pictures.interval_words(figure, found)}, {pictures.sure(found)} confidence"
    )
    return Cell(pictures.shown(figure, found["value"]), found["value"], interval)


def _verdict(found: dict[str, str]) -> str:
    if found["kind"] == "too_few":
        return f"{found['label']}: too few rounds to compare with {found['baseline']}."
    spread = f"({found['sure']} confidence interval {found['low']} to {found['high']})"
    if found["kind"] == "no_difference":
        return f"{found['label']}: no significant difference in throughput from {found['baseline']} {spread}."
    return f"{found['label']}: {found['times']} × the throughput of {found['baseline']} {spread}."


def _compared_section(compared: Sequence[run_changes.Change]) -> list[Section]:
    if not compared:
        return []
    table = change_texts.table(compared)
    rows = [
        [
            *(Cell(text) for text in row[:3]),
            Cell(row[3], item.before),
            Cell(row[4], item.now),
            Cell(row[5], item.ratio.value),
            *(Cell(text) for text in row[6:]),
        ]
        for row, item in zip(table.rows, compared, strict=True)
    ]
    note = (
        "A change is significant when the confidence interval of the ratio excludes 1 and the change exceeds the "
        "normal variation between runs."
    )
    return [Section("Since the previous run", [Table("Since the previous run", table.head, rows, note, 3)])]


def _history(run: Run, earlier: Sequence[Run]) -> list[Picture]:
    """Return [chart] with the throughput of `run` and of `earlier` runs, with changes marked; [] if there are fewer
    than two earlier runs.
    """
    ended = [row for row in [*earlier, run] if row.finished_at and row.status == RunStatus.FINISHED]
    points = [point for row in ended for point in selectors.points_of(row, "throughput_rps")]
    chart = pictures.history(points, "throughput_rps") if len(earlier) >= 2 else None
    return [picture(chart)] if chart else []


_SERVERS = {engine.value: str(engine.label) for engine in Engine}


def _facts(run: Run) -> list[list[str]]:
    parameters = run.parameters
    facts = [
        ["Tool", results.tool_words(run)],
        ["Arguments", ", ".join(results.argument_words(run))],
        ["Paths", " ".join(parameters["paths"])],
        ["Rounds", f"{parameters['rounds']}, interleaved; {parameters['warmup_s']} s warm-up"],
    ]
    for target in run.fingerprint.get("targets", []):
        number = f", revision #{target['revision']}" if target.get("revision") else ""
        server = (
            f"{_SERVERS.get(target.get('engine', ''), target.get('engine', ''))} {target.get('version', '')}".strip()
        )
        facts.append([target["label"], f"{server}{number}"])
    return facts + _machines(run.fingerprint.get("hosts", {}))


def _machines(hosts: Mapping[str, HostFacts]) -> list[list[str]]:
    return [[name, _machine(seen)] for name, seen in hosts.items()]


def _machine(seen: HostFacts) -> str:
    cpus = f"{seen.get('cpus_usable', '?')} CPUs {seen.get('cpu_model') or ''}".strip()
    return f"Linux {seen.get('kernel', '?')}, {cpus}"


# --- suites ---


def earlier_suites(row: SuiteRun) -> list[SuiteRun]:
    """Return earlier finished runs of the same suite, preset and part on the same host, oldest first; at most
    EARLIER_SUITES.
    """
    rows = SuiteRun.objects.filter(
        suite=row.suite, preset=row.preset, host_name=row.host_name, status=SuiteStatus.FINISHED, pk__lt=row.pk
    )
    suite = SUITES[row.suite]
    chosen = row.choice.settled(suite)
    alike = [old for old in rows.order_by("-pk")[: 2 * EARLIER_SUITES] if old.choice.settled(suite) == chosen]
    return alike[:EARLIER_SUITES][::-1]


def suite_document(row: SuiteRun, notes: Sequence[str]) -> Document:
    earlier = earlier_suites(row)
    before = earlier[-1] if earlier else None
    since_when = f"the run of {when(before.finished_at)}" if before else ""
    shown = suite_results.result(row)
    sections, warnings = [], list(row.left_out)
    for part in shown["parts"]:
        sections.append(Section(part.table.title, [_suite_table(part.table)], _pictures(part.charts), part.remarks))
    if row.preset != "full":
        warnings.append(
            "This is a quick preview with fewer requests and shorter rounds than in the published benchmark."
        )
    top, compared = _suite_top(row, earlier, since_when)
    return Document(
        title=row.title,
        made_at=when(row.finished_at),
        outcome=top.outcome,
        headline=top.headline,
        since=since_when,
        changes=top.changes,
        around=_sentences(_suite_around(row, before)) if before else [],
        notes=list(notes),
        warnings=warnings,
        sections=[*_compared_section(compared), *sections],
        facts=_suite_facts(row, shown),
        link=_link("benchmarks:suite", row.uuid),
    )


def _suite_facts(row: SuiteRun, shown: dict[str, Any]) -> list[list[str]]:
    servers = shown["servers"] or [item["label"] for item in row.setups]
    said = choosing.described(SUITES[row.suite], row.preset, row.choice, servers)
    return [*map(list, said), ["Published", shown["source"]["source"]], *_machines(shown["hosts"])]


def _suite_around(row: SuiteRun, before: SuiteRun) -> list[str]:
    """Describe the differences between two suite runs in versions, hosts and settings; each difference once.
    Only cases that both suite runs have are compared.
    """
    old = {before.plan[run.case]["slug"]: run for run in before.runs.all() if run.case is not None}
    found = []
    for run in row.runs.order_by("case"):
        same = old.get(row.plan[run.case or 0]["slug"])
        if same is not None and run.fingerprint and same.fingerprint:
            found += run_changes.around(run.fingerprint, same.fingerprint)
    cases = suite_comparing.asked_otherwise(suite_comparing.side_of(row), suite_comparing.side_of(before))
    found += [f"The settings of the case “{title}” differ, so the report does not compare this case" for title in cases]
    return list(dict.fromkeys(found))


def _pictures(charts: Sequence[Chart]) -> list[Picture]:
    return [picture(chart) for chart in charts]


def _suite_table(table: SuiteTable) -> Table:
    rows = [[Cell(cell.text, cell.value, cell.detail) for cell in cells] for cells in table.rows]
    return Table(table.title, table.head, rows, table.note, table.names)


def _suite_top(row: SuiteRun, earlier: Sequence[SuiteRun], since_when: str) -> tuple[Top, list[run_changes.Change]]:
    now = suite_comparing.side_of(row).outcomes
    if not any(outcome.status == RunStatus.FINISHED for outcome in now.values()):
        words = "The suite was cancelled." if row.status == SuiteStatus.CANCELLED else "No case of the suite succeeded."
        return headline.of_failure(words), []
    if not earlier:
        return headline.of_changes([], ""), []
    known: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for old in earlier:
        for run in old.runs.filter(status=RunStatus.FINISHED):
            if run.case is not None:
                _collect(known[old.plan[run.case]["slug"]], run.summary)
    before = suite_comparing.side_of(earlier[-1]).outcomes
    found = []
    for slug, outcome in now.items():
        if slug in before and suite_comparing.is_same_load(outcome.case, before[slug].case):
            own = suite_comparing.case_changes(outcome, before[slug], known[slug])
            found += [replace(change, label=f"{outcome.case.title}, {change.label}") for change in own]
    return headline.of_changes(found, since_when), found
