"""Web servers are compared only while they send the same responses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from panel.benchmarks.runs.comparability import NotComparable, changes, check_answers

PAGE = {"status": 200, "sha256": "a" * 64, "bytes": 100, "encoding": "", "type": "text/html"}
LABELS = ["one", "two"]


def check(second: dict[str, Any], *, first: dict[str, Any] | None = None, dynamic: bool = False) -> None:
    check_answers(LABELS, ["/"], [[first or PAGE], [PAGE | second]], dynamic=dynamic)


def refusal(second: dict[str, Any]) -> str:
    try:
        check(second)
    except NotComparable as error:
        return str(error)
    return ""


def test_equal_responses_are_comparable() -> None:
    assert refusal({}) == ""
    assert refusal({"status": 404}) != ""


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"sha256": "b" * 64, "bytes": 99}, "two sends 99 bytes with SHA-256 bbbbbbbbbbbb"),
        ({"encoding": "gzip"}, "content encoding differs: one sends none and two sends gzip"),
        ({"type": "text/plain"}, "content type differs: one sends text/html and two sends text/plain"),
        ({"status": 206}, "status differs: one sends 200 and two sends 206"),
    ],
)
def test_response_difference_is_reported(second: dict[str, Any], words: str) -> None:
    with pytest.raises(NotComparable) as refused:
        check(second)
    assert words in refused.value.message


def test_dynamic_pages_are_compared_without_bodies() -> None:
    check({"sha256": "b" * 64}, dynamic=True)
    with pytest.raises(NotComparable):
        check({"encoding": "gzip"}, dynamic=True)


@pytest.mark.parametrize("status", [199, 301, 304, 404, 421, 500])
def test_single_target_must_respond_successfully(status: int) -> None:
    with pytest.raises(NotComparable, match=f"one responds to / with status {status}"):
        check_answers(["one"], ["/"], [[PAGE | {"status": status}]], dynamic=False)


def test_missing_response_is_reported_with_reason() -> None:
    with pytest.raises(NotComparable, match="two did not respond to /: ConnectionRefusedError"):
        check_answers(LABELS, ["/"], [[PAGE], [{"error": "ConnectionRefusedError: refused"}]], dynamic=False)


FINGERPRINT: dict[str, Any] = {
    "hosts": {"web1": {"kernel": "6.1", "boot_id": "x", "cpus": 2, "tools": {"ab": {"version": "2.3"}}}},
    "targets": [{"label": "one", "revision": 3, "version": "1.22", "content": {"/": PAGE}}],
}


def test_unchanged_fingerprint_has_no_changes() -> None:
    assert changes(FINGERPRINT, copy.deepcopy(FINGERPRINT)) == []


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("hosts", "web1", "kernel"), "6.2", "the kernel of web1 changed from 6.1 to 6.2"),
        (("hosts", "web1", "boot_id"), "y", "the boot ID (new after each restart) of web1 changed from x to y"),
        (("hosts", "web1", "tools"), {}, "the load tool ab of web1 changed from 2.3 to none"),
        (("hosts", "web1", "governor"), "powersave", "the CPU governor of web1 changed from none to powersave"),
        (("hosts", "web1", "sysctls"), {"net.core.somaxconn": "128"}, "net.core.somaxconn of web1 changed from none"),
        (
            ("hosts", "web1", "programs"),
            {"gallop-load": "f" * 64},
            "gallop-load of web1 changed from none to build fff",
        ),
        (("targets", 0, "revision"), 4, "the deployed revision of one changed from 3 to 4"),
        (("targets", 0, "version"), "1.24", "the web server's version of one changed"),
        (("targets", 0, "content"), {}, "the content of one has changed"),
    ],
)
def test_each_fingerprint_change_is_named(place: tuple[Any, ...], value: Any, words: str) -> None:
    after = copy.deepcopy(FINGERPRINT)
    inner = after
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (said,) = changes(FINGERPRINT, after)
    assert words in said
