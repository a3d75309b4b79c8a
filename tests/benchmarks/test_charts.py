"""Charts show their data and contain nothing that the content security policy forbids."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from panel.benchmarks.charts import pictures
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics.summary import BY_NAME, summarize
from panel.benchmarks.tools.parsers.metrics import Latency, Metrics
from panel.core import charts
from panel.core.charts import Chart

NAMES = ("shop (nginx, web1)", "shop-apache (Apache httpd, web1)", '<script>"x"</script> & co')


def measured() -> list[Measured]:
    found = []
    for number in (1, 2, 3):
        for position, name in enumerate(NAMES):
            speed = 1000.0 * (position + 1) + 10 * number
            latency = Latency(0.001, 1.0, 1.0, 2.0, 3.0, 4.0, 50.0, 60.0)
            curve = [[0, 0.5], [50, 1.0], [90, 2.0], [99, 4.0 * (position + 1)], [99.9, 50.0]]
            metrics = Metrics(10_000, 0, 0, 1, 10.0, speed, latency, curve)
            samples = {"server": [[0.2, 0.0, 1e7], [0.8, 90.0, 2e7], [1.6, 5.0, 2e7]], "tool": [[0.8, 50.0, 4e6]]}
            phases = [["idle", 0.0, 0.5], ["load", 0.5, 1.5], ["idle", 1.5, 2.0]]
            found.append(Measured(position, name, number, metrics, {"server": 1.0, "tool": 0.5}, 1.0, phases, samples))
    return found


def all_charts() -> list[Chart]:
    rounds = measured()
    summary = summarize(rounds, {})
    point = {"at": "2026-01-02T03:04:05+00:00", "label": NAMES[0], "title": "a", "value": 1.0, "low": 0.9, "high": 1.1}
    drawn = [
        pictures.bars(summary["targets"], "throughput_rps"),
        pictures.curve(summary["targets"]),
        pictures.ratios(summary),
        pictures.over_time(rounds, 1),
        pictures.over_time(rounds, 2),
        pictures.history([point, point | {"at": "2026-01-03T03:04:05+00:00"}], "throughput_rps"),
    ]
    assert all(drawn)
    return [chart for chart in drawn if chart is not None]


@pytest.mark.parametrize("chart", all_charts(), ids=lambda chart: chart.name)
def test_chart_is_one_labeled_image_with_table(chart: Chart) -> None:
    root = ElementTree.fromstring(chart.svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == chart.label
    assert chart.label.endswith(".")
    assert chart.table.rows
    assert all(len(row) == len(chart.table.head) for row in chart.table.rows)
    inner = [element for element in root.iter() if element is not root]
    assert not any(name == "role" or name.startswith("aria-") for element in inner for name in element.attrib)


@pytest.mark.parametrize("chart", all_charts(), ids=lambda chart: chart.name)
def test_chart_meets_content_security_policy(chart: Chart) -> None:
    assert not re.search(
        r"<(script|style|foreignObject|image)\b|\sstyle=|\son\w+=|https?://(?!www\.w3\.org)", chart.svg
    )


@pytest.mark.parametrize("chart", all_charts(), ids=lambda chart: chart.name)
def test_every_chart_color_has_dark_theme_counterpart(chart: Chart) -> None:
    from django.conf import settings

    css = (settings.BASE_DIR / "static" / "css" / "benchmarks.css").read_text()
    for kind, colour in set(re.findall(r'\b(fill|stroke)="(#[0-9a-f]+)"', chart.svg)):
        assert f'[{kind}="{colour}"]' in css, f"{kind} {colour} of {chart.name} stays as it is in the dark theme"


def test_chart_lines_differ_without_color() -> None:
    chart = pictures.curve(summarize(measured(), {})["targets"])
    assert chart is not None
    dashes = re.findall(r'stroke-dasharray="([^"]+)"', chart.svg)
    assert len(set(dashes)) >= 2


def test_bars_show_values_and_table_shows_intervals() -> None:
    chart = pictures.bars(summarize(measured(), {})["targets"], "throughput_rps")
    assert chart is not None
    assert "1,020 requests/s" in chart.svg
    assert chart.table.rows[0] == [NAMES[0], "1,020 requests/s", "1,010 to 1,030 requests/s", "75 %", "3"]


def test_metric_without_values_has_no_chart() -> None:
    assert pictures.bars([], "throughput_rps") is None
    assert pictures.curve([]) is None
    assert pictures.ratios({"targets": [], "ratios": []}) is None
    assert pictures.over_time([], 1) is None
    assert pictures.history([], "throughput_rps") is None


def test_equal_charts_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = all_charts()[0]
    first = chart.svg
    monkeypatch.setattr(charts, "_draw", lambda spec: pytest.fail("drawn again"))
    assert chart.svg == first


def test_charts_share_no_ids() -> None:
    found = [re.findall(r'\bid="([^"]+)"', chart.svg) for chart in all_charts()]
    flat = [ident for idents in found for ident in idents]
    assert len(flat) == len(set(flat))


@pytest.mark.parametrize(
    "drawn", ["<svg><script/></svg>", '<svg style="x"/>', '<svg onload="x"/>', "<svg><foreignObject/></svg>"]
)
def test_chart_that_breaks_policy_is_rejected(drawn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "_draw", lambda spec: drawn)
    with pytest.raises(ValueError, match="content security policy"):
        charts.svg({"fresh": drawn}, "x.")


@pytest.mark.parametrize("column", [1, 2])
def test_time_charts_follow_order_of_targets(column: int) -> None:
    chart = pictures.over_time(measured(), column)
    assert chart is not None
    said = re.findall(r"<text[^>]*>(shop \(nginx|shop-apache|&lt;script)", chart.svg)
    assert said == ["shop (nginx", "shop-apache", "&lt;script"]


@pytest.mark.parametrize(("seconds", "step"), [(80, 1), (500, 5)])
def test_samples_of_long_round_are_grouped(seconds: int, step: int) -> None:
    samples = [[count / 5, float(count % 5), float(count)] for count in range(5 * seconds)]
    cpu, memory = (pictures.thinned(samples, column) for column in (1, 2))
    assert len(cpu) == len(memory) == seconds // step <= 121
    assert {value for _, value in cpu} == {2.0}, "of CPU the mean, so that nothing is lost of the whole"
    assert memory[0] == (round(step / 2 - 0.1, 2), 5.0 * step - 1), "of memory the most"
    assert pictures.thinned(samples[:50], 1) == [(sample[0], sample[1]) for sample in samples[:50]]


def test_time_chart_shows_median_round() -> None:
    assert [measured.number for measured in pictures.median_rounds(measured())] == [2, 2, 2]


@pytest.mark.parametrize(("percent", "words"), [(100.0, "100 %"), (99.9985, "99.999 %"), (99.5, "99.500 %")])
def test_availability_is_shown_to_a_thousandth(percent: float, words: str) -> None:
    assert pictures.shown(BY_NAME["availability_percent"], percent) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"), [(0.256, "0.256 ms"), (9.0, "9.000 ms"), (20.0, "20.0 ms"), (1280.4, "1,280 ms")]
)
def test_times_have_readable_number_of_decimals(milliseconds: float, words: str) -> None:
    assert pictures.shown(BY_NAME["latency_max"], milliseconds) == words
