"""RESULTS.md from what was measured."""

from __future__ import annotations

from typing import Any

from compare.cases import CASES, Case

MB = 1_000_000
MILLION_AIM = 28 * MB


def _table(case: Case, result: dict[str, dict[str, float]]) -> list[str]:
    lines = [
        f"### {case.title}",
        "",
        "| server | CPU us per request | CPU against gallop's (rounds from - to) | requests per second | peak RSS, MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, r in result.items():
        ratio = "1" if name == "gallop" else f"{r['ratio']:.2f} ({r['ratio_low']:.2f} - {r['ratio_high']:.2f})"
        lines.append(f"| {name} | {r['us']:.2f} | {ratio} | {r['rate']:,.0f} | {r['peak_rss'] / MB:.1f} |")
    return [*lines, *_aims(case, result), ""]


def _aims(case: Case, result: dict[str, dict[str, float]]) -> list[str]:
    lines = [""]
    for aim in case.aims:
        if aim.server not in result:
            lines.append(f"- Aim against {aim.server}: not measured, it was not there.")
            continue
        ratio = result[aim.server]["ratio"]
        verdict = "reached" if ratio >= aim.factor else f"missed by {(aim.factor / ratio - 1) * 100:.0f} %"
        lines.append(f"- Aim: {aim.factor:.2f} of {aim.server}'s CPU per request; measured {ratio:.2f}: {verdict}.")
        if aim.server != "limit" and "limit" in result:
            most = ratio / result["limit"]["ratio"]
            lines.append(f"- {aim.server} needs {most:.2f} of the limit program's CPU: no server can come to much more.")
    return lines


def _plain_table(title: str, result: dict[str, dict[str, float]], columns: dict[str, tuple[str, float]]) -> list[str]:
    lines = [f"### {title}", "", "| server | " + " | ".join(label for label, _ in columns.values()) + " |"]
    lines.append("|---|" + "---:|" * len(columns))
    for name, values in result.items():
        cells = [f"{values[key] / unit:.2f}" for key, (_, unit) in columns.items()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _half(result: dict[str, dict[str, float]], keys: list[str]) -> list[str]:
    lines = []
    for peer in ("nginx", "nginx-new"):
        if peer not in result:
            continue
        for key in keys:
            share = result["gallop"][key] / result[peer][key]
            verdict = "reached" if share <= 0.5 else f"missed by {(share / 0.5 - 1) * 100:.0f} %"
            lines.append(f"- Aim: at most half of {peer}'s {key}; measured {share:.2f} of it: {verdict}.")
    return [*lines, ""]


def _failed(record: dict[str, Any], case: str) -> list[str]:
    """Peers that were there and could not be measured."""
    failures = record.get("failures", {}).get(case, {})
    lines = [f"- {name} failed and is left out: {reason}" for name, reason in failures.items()]
    return [*lines, ""] if lines else []


BLOCKS = {
    "test": ("`-t`, s", 1.0),
    "start": ("start, s", 1.0),
    "reload": ("reload, s", 1.0),
    "memory": ("memory, MB", float(MB)),
}


def _head(record: dict[str, Any]) -> list[str]:
    return [
        "# What the comparison measured",
        "",
        "Written by `make compare` (native/benches/compare). In one call, round by round, every server answers the same",
        "requests with one worker pinned to one core; the load tool has the other core. CPU is the server's own, user and",
        "system, children included; a ratio is the median over rounds of the other's CPU per request divided by gallop's",
        "in the same round: above 1, gallop needs less. Requests per second are often the load tool's limit. Nothing that",
        "nginx does by default is switched off: Date, ETag, Last-Modified, timeouts. Access logs are off everywhere.",
        "`limit` is a program that answers any request with prepared bytes by one read and one write; with php-fpm and the",
        "reverse proxy it passes them on unread, by one write and one read more, and answers with prepared bytes.",
        "",
        f"Machine: {record['machine']}. Measured {record['date']}.",
        "",
        *[f"- {name}: {text}" for name, text in record["versions"].items()],
        "",
    ]


def _million(record: dict[str, Any]) -> list[str]:
    result = record["cases"]["million"]
    title = "One million HTTP/3 requests, 100 connections x 10 streams"
    peak = result["gallop"]["peak_rss"]
    verdict = "reached" if peak < MILLION_AIM else f"missed by {(peak / MILLION_AIM - 1) * 100:.0f} %"
    return [
        *_plain_table(title, result, {"peak_rss": ("peak RSS, MB", MB)}),
        *_failed(record, "million"),
        f"- Aim: under 28 MB; measured {peak / MB:.1f} MB: {verdict}.",
        "",
    ]


def _halved(record: dict[str, Any], case: str, title: str, columns: dict[str, tuple[str, float]]) -> list[str]:
    """A case in which gallop is to need at most half of every column."""
    result = record["cases"][case]
    return [*_plain_table(title, result, columns), *_failed(record, case), *_half(result, list(columns))]


def render(record: dict[str, Any], notes: str) -> str:
    cases = record["cases"]
    lines = _head(record)
    for case in CASES:
        if case.name in cases:
            lines += _table(case, cases[case.name])
            lines += _failed(record, case.name)
    if "million" in cases:
        lines += _million(record)
    if "idle" in cases:
        title = "10,000 idle keep-alive connections"
        lines += _halved(record, "idle", title, {"idle": ("memory they hold, MB", MB)})
    if "blocks" in cases:
        lines += _halved(record, "blocks", "10,000 server blocks", BLOCKS)
    return "\n".join(lines) + "\n" + notes
