"""A suite over a custom link: by its page, the API and a schedule; rejected where no link can be created."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from panel.accounts.models import User
from panel.benchmarks.models import Round, SuiteRun
from panel.benchmarks.runs import comparability
from panel.benchmarks.suites import SUITES, links
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import Network
from panel.core.errors import ApplicationError
from panel.hosts.models import Host, WebServer
from panel.reports.models import Schedule
from tests.api.caller import caller_of, pointers
from tests.benchmarks.test_pages import text
from tests.suites.benchmark_suites.suite_runner import carried_out
from tests.suites.benchmark_suites.test_suites import servers as servers  # a fixture
from tests.support.cast import signed_in

LINK = {"bandwidth_mbps": 50.0, "rtt_ms": 2.0, "jitter_ms": 0.5, "loss_percent": 0.0, "queue_packets": 200}
WORDS = "50 Mbit/s, 2 ms, queue 200, jitter 0.5 ms"


def over(suite: str, network: Network, **chosen: Any) -> list[str]:
    cases = Choice(network=network, **chosen).of(SUITES[suite], "full")
    assert {case.network for case in cases} == {network}
    assert not any(case.as_published for case in cases), "published figures are of other links"
    return [case.title for case in cases]


def test_custom_link_replaces_links_of_all_cases() -> None:
    network = Network(20, 50, loss_percent=1)
    assert over("http3-2019", network, cases=("file-10mb", "shallow-queue"), protocols=("h3", "h2")) == [
        "One file of 10 MB: 20 Mbit/s, 50 ms, loss 1 %, HTTP/3",
        "One file of 10 MB: 20 Mbit/s, 50 ms, loss 1 %, HTTP/2",
        "One file of 10 MB through a deep and a shallow queue: 20 Mbit/s, 50 ms, loss 1 %, HTTP/3",
        "One file of 10 MB through a deep and a shallow queue: 20 Mbit/s, 50 ms, loss 1 %, HTTP/2",
    ], "rows that differ by their link alone are one"
    assert over("small-static-files", network) == [
        "A new connection for each request: 20 Mbit/s, 50 ms, loss 1 %",
        "Keep-alive connections: 20 Mbit/s, 50 ms, loss 1 %",
    ]


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"bandwidth_mbps": 0.0}, "bandwidth_mbps", "enter a number from 1 to 10,000. You entered 0"),
        ({"bandwidth_mbps": math.nan}, "bandwidth_mbps", "enter a number from 1 to 10,000."),
        ({"bandwidth_mbps": math.inf}, "bandwidth_mbps", "You entered inf"),
        ({"rtt_ms": -1.0}, "rtt_ms", "from 0 to 2,000"),
        ({"rtt_ms": 10.0, "jitter_ms": 6.0}, "jitter_ms", "at most half of the round trip, 5"),
        ({"loss_percent": 100.0}, "loss_percent", "from 0 to 30"),
        ({"queue_packets": 0}, "queue_packets", "from 1 to 100,000"),
    ],
)
def test_invalid_link_is_rejected_at_its_field(wrong: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ApplicationError, match=words) as caught:
        over("small-static-files", Network(**{**LINK, **wrong}))
    assert caught.value.field == f"network/{field}"


def test_link_too_slow_for_round_is_rejected() -> None:
    with pytest.raises(ApplicationError, match="takes at least 8,000 s, but its time limit is 1800 s"):
        over("http3-2019", Network(1, 10), cases=("file-1gb",))


@pytest.mark.django_db(transaction=True)
def test_suite_runs_over_custom_link_and_shows_it(operator: User, servers: Host) -> None:
    client = signed_in(operator)
    chosen = {"host": servers.name, "preset": "short", "cases": ["keepalive"], "setups": ["gallop"]}
    asked = client.post(reverse("benchmarks:suite-start", args=["small-static-files"]), chosen | LINK)
    row = SuiteRun.objects.get()
    assert asked["Location"] == reverse("benchmarks:suite", args=[row.uuid])
    assert f"Small static files, over {WORDS}, a part, on here" == row.title
    (run,) = carried_out(row)
    assert run.error == ""
    assert run.fingerprint["network"]["asked"] == {
        "bandwidth_kbit": 50_000, "rtt_us": 2_000, "queue_packets": 200, "jitter_us": 500, "loss_ppm": 0,
    }  # fmt: skip
    for counted in Round.objects.filter(target__run=run):
        # Five connections with one request on the way each, and a round trip of 1 ms at the very least.
        assert 0 < counted.metrics["throughput_rps"] <= 5 / 0.001
    assert f"This suite run uses a custom link instead of the links of the suite: {WORDS}" in text(
        client, asked["Location"]
    )
    shown = caller_of(operator).get(f"suites/{row.uuid}/").json()  # type: ignore[attr-defined]
    assert shown["network"] == LINK
    carried = f"emulated by {links.carrier_words(run.fingerprint['network']['measured'])}"
    for page in (asked["Location"], reverse("benchmarks:detail", args=[run.uuid])):
        assert "Mbit/s upstream and " in text(client, page) and carried in text(client, page)


@pytest.mark.django_db(transaction=True)
def test_suite_can_request_link_emulator(operator: User, servers: Host) -> None:
    program = caller_of(operator)
    chosen = {"cases": ["keepalive"], "setups": ["gallop"], "network": LINK}
    body = {"suite": "small-static-files", "preset": "short", "host": servers.name, **chosen}
    refused = program.post("suites/", {**body, "link": "ipfw"})
    assert refused.status_code == 422 and pointers(refused) == ["/link"]
    assert program.post("suites/", {**body, "link": "emulator"}).status_code == 202
    row = SuiteRun.objects.get()
    (run,) = carried_out(row)
    assert run.error == ""
    assert (run.fingerprint["network"]["measured"]["by"], row.choice.link) == ("emulator", "emulator")


def test_report_names_link_shaper_with_reason_and_change() -> None:
    burst = {"rtt_us": {"p50": 10_370, "p99": 12_090}, "burst": [400, 399]}
    measured = {**burst, "rate_kbit": {"forward": 100_050.0, "backward": 99_520.0}}
    asked = {"bandwidth_kbit": 100_000}
    before = {"asked": asked, "measured": {**measured, "by": "emulator", "why": "Specified qdisc kind is unknown."}}
    after = {"asked": asked, "measured": {**measured, "by": "tc netem", "why": ""}}
    assert links.measured_words(before) == (
        "round trip 10.37 ms (99th percentile: 12.09), 100.05 Mbit/s upstream and 99.52 downstream, 399 of 400 packets "
        "of a burst arrived; emulated by the bundled emulator "
        "(tc netem failed on the host: Specified qdisc kind is unknown.)"
    )
    assert links.measured_words(after).endswith("arrived; emulated by tc netem")
    rest: dict[str, Any] = {"hosts": {}, "targets": []}
    assert comparability.changes({**rest, "network": before}, {**rest, "network": after}) == [
        "the link emulation changed from emulator to tc netem"
    ]
    assert comparability.changes({**rest, "network": before}, {**rest, "network": before}) == []


@pytest.mark.django_db
def test_link_errors_are_shown_on_page_and_api(operator: User, host: Host) -> None:
    client, program = signed_in(operator), caller_of(operator)
    address = reverse("benchmarks:suite-expected", args=["http3-2019"])
    start = reverse("benchmarks:suite-start", args=["http3-2019"])
    for wrong, words in (
        ({"rtt_ms": "10"}, "Bandwidth (Mbit/s): enter a number from 1"),
        ({"bandwidth_mbps": "fast"}, "Bandwidth (Mbit/s): "),
        ({"bandwidth_mbps": "5", "queue_packets": "1.5"}, "Queue (packets): "),
        ({"bandwidth_mbps": "5", "rtt_ms": "4", "jitter_ms": "3"}, "Jitter (ms): enter at most half"),
    ):
        assert words in text(client, f"{address}?{urlencode(wrong)}")
        refused = client.post(start, {"host": host.name, "preset": "full"} | wrong, follow=True)
        assert words in refused.content.decode()
    asked = {"suite": "http3-2019", "preset": "full", "host": host.name}
    for network, pointer in (
        ({"rtt_ms": 10}, "/network/bandwidth_mbps"),
        ({"bandwidth_mbps": "nan"}, "/network/bandwidth_mbps"),
        ({"bandwidth_mbps": True}, "/network/bandwidth_mbps"),
        ({"bandwidth_mbps": 5, "rtt_ms": 4, "jitter_ms": 3}, "/network/jitter_ms"),
        ({"bandwidth_mbps": 5, "colour": 3}, "/network/colour"),
        ([5], "/network"),
    ):
        answer = program.post("suites/", asked | {"network": network})
        assert (answer.status_code, pointers(answer)) == (422, [pointer]), answer.content
    assert not SuiteRun.objects.exists()


@pytest.mark.django_db
def test_schedule_keeps_custom_link(operator: User, host: Host, web_server: WebServer) -> None:
    client = signed_in(operator)
    form = {
        "name": "Far away", "cron": "@weekly", "timezone": "UTC", "suite": "small-static-files", "preset": "short",
        "host": host.name, "overlap": "skip", "grace_minutes": "60", "notify": "always",
    }  # fmt: skip
    wrong = client.post("/reports/schedules/new/suite", form | {"rtt_ms": "20"})
    assert wrong.status_code == 422
    assert "Bandwidth (Mbit/s): enter a number from 1 to 10,000." in wrong.content.decode()
    assert client.post("/reports/schedules/new/suite", form | LINK).status_code == 302
    schedule = Schedule.objects.get()
    assert schedule.choice.network == Network(**LINK)
    page = text(client, f"/reports/schedules/{schedule.pk}")
    assert f"<dd>{WORDS}</dd>" in page
    edited = text(client, f"/reports/schedules/{schedule.pk}/edit")
    assert 'name="rtt_ms" value="2.0"' in edited
    assert "2 cases, " in edited
