"""Allowed arguments of load tools, and the argv lists that result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panel.benchmarks.choices import Tool
from panel.benchmarks.tools.arguments import TOOLS, ArgumentError, clean, clean_paths
from panel.benchmarks.tools.commands import Endpoint, command

SITE = Endpoint("127.0.0.1", 8080, "a.example")
SECURE = Endpoint("::1", 443, "a.example", tls=True)
SECONDS = {"duration_s": 5}


def refused(tool: str, raw: Any) -> dict[str, str]:
    with pytest.raises(ArgumentError) as error:
        clean(tool, raw)
    return error.value.errors


@pytest.mark.parametrize("tool", list(Tool))
@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "-n5",
        "--help",
        "1;id",
        "$(id)",
        "`id`",
        "1|2",
        "1\n2",
        "1\x00",
        " 1",
        "1 ",
        "١",
        "1e3",
        "0x10",
        "+1",
        "1.0",
        0,
        -1,
        10**9,
        1.5,
        True,
        [1],
        {"a": 1},
    ],
)
def test_number_arguments_are_plain_and_bounded(tool: Tool, value: Any) -> None:
    errors = refused(tool, {**SECONDS, "concurrency": value})
    assert "whole number from 1 to" in errors["concurrency"]


@pytest.mark.parametrize("value", ["h4", "-h1", "h1 h2", "h1;id", "", 1, ["h1"], None])
def test_protocol_argument_is_one_of_the_known(value: Any) -> None:
    if value in ("", None):
        assert clean("h2load", {**SECONDS, "protocol": value})["protocol"] == "h1"
    else:
        assert "Choose one of h1, h2, h3" in refused("h2load", {**SECONDS, "protocol": value})["protocol"]


@pytest.mark.parametrize("value", ["yes", "-k", 1, 0, "true", []])
def test_boolean_argument_is_true_or_false(value: Any) -> None:
    assert refused("ab", {**SECONDS, "keepalive": value}) == {"keepalive": "Send true or false."}


def test_unknown_arguments_are_rejected_and_known_ones_listed() -> None:
    errors = refused("wrk", {**SECONDS, "script": "/etc/passwd", "-s": "x"})
    assert set(errors) == {"script", "-s"}
    assert "Known arguments: concurrency, duration_s" in errors["script"]


def test_unknown_tool_is_rejected() -> None:
    assert "Unknown load tool 'curl'" in refused("curl", {})[""]


@pytest.mark.parametrize(
    ("tool", "raw", "field", "words"),
    [
        ("ab", {}, "duration_s", "a number of requests, or seconds"),
        ("ab", {"requests": 10, "duration_s": 5}, "duration_s", "either requests or seconds"),
        ("ab", {"requests": 5, "concurrency": 10}, "requests", "at least 10 requests"),
        ("wrk", {**SECONDS, "threads": 4, "concurrency": 2}, "threads", "at most 2 threads"),
        ("h2load", {**SECONDS, "streams": 8}, "streams", "no streams"),
        ("h2load", {**SECONDS, "protocol": "h3"}, "protocol", "TLS"),
        ("siege", {"requests": 25, "concurrency": 10}, "requests", "for example 20"),
        ("siege", {**SECONDS, "concurrency": 1001}, "concurrency", "1 to 1000"),
        ("hey", {"requests": 25, "concurrency": 10}, "requests", "for example 20"),
        ("hey", {"requests": 1_000_001, "concurrency": 1}, "requests", "1 to 1000000"),
        ("hey", {**SECONDS, "concurrency": 501}, "concurrency", "1 to 500"),
        ("hey", {**SECONDS, "threads": 4, "concurrency": 2}, "threads", "at most 2 threads"),
    ],
)
def test_contradicting_arguments_are_rejected(tool: str, raw: dict[str, Any], field: str, words: str) -> None:
    assert words in refused(tool, raw)[field]


@given(st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.integers() | st.text(max_size=20)))
def test_arbitrary_arguments_are_cleaned_or_rejected(raw: dict[str, Any]) -> None:
    for tool in Tool:
        try:
            values = clean(tool, raw)
        except ArgumentError as error:
            assert error.errors
        else:
            assert set(values) == {field.name for field in TOOLS[tool].fields}


@pytest.mark.parametrize("path", ["/", "/a/b.html", "/a?b=c&d=%20", "/~user/@x:1,2+3*!"])
def test_valid_paths_are_accepted(path: str) -> None:
    assert clean_paths("wrk", [path]) == [path]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "http://192.0.2.1/",
        "//192.0.2.1/",
        "/a b",
        "/a\n/b",
        "/a\r",
        "/\x00",
        "/$(HOME)",
        "/`id`",
        "/a;b",
        "/a'b",
        '/a"b',
        "/a#b",
        "/a\\b",
        "/é",
        "/%",
        "/%zz",
        "/{workdir}/x",
        "/a|b",
        "/<x>",
        "-h",
        "/" + "a" * 2000,
        7,
        None,
    ],
)
def test_ambiguous_paths_are_rejected(path: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        clean_paths("wrk", ["/", path])
    assert list(error.value.errors) == ["paths"]


@pytest.mark.parametrize("raw", [[], None, "/", {"a": 1}, ["/"] * 101])
def test_paths_must_be_a_list(raw: Any) -> None:
    with pytest.raises(ArgumentError):
        clean_paths("wrk", raw)


@pytest.mark.parametrize("tool", ["ab", "hey"])
def test_ab_and_hey_request_one_url(tool: str) -> None:
    with pytest.raises(ArgumentError, match="only one URL"):
        clean_paths(tool, ["/", "/b"])


def test_ab_argv_matches_arguments() -> None:
    built = command(Tool.AB, clean("ab", {"requests": 500, "concurrency": 5, "gzip": True}), ["/x"], SITE)
    head = ["ab", "-q", "-r", "-s", "30", "-c", "5", "-n", "500", "-k", "-H", "Accept-Encoding: gzip"]
    tail = ["-e", "{workdir}/percentiles.csv", "-H", "Host: a.example:8080", "http://127.0.0.1:8080/x"]
    assert built.argv == head + tail
    assert built.outputs == ["percentiles.csv"]


def test_ab_argv_has_count_after_time() -> None:
    argv = command(Tool.AB, clean("ab", {"duration_s": 10, "keepalive": False}), ["/"], SITE).argv
    assert argv.index("-n") > argv.index("-t")
    assert "-k" not in argv


def test_h2load_argv_matches_arguments() -> None:
    raw = {"requests": 100, "concurrency": 4, "threads": 2, "streams": 8, "protocol": "h2", "tls": True, "rate_rps": 50}
    built = command(Tool.H2LOAD, clean("h2load", raw), ["/", "/b"], SECURE)
    head = ["h2load", "-c", "4", "-t", "2", "-m", "8", "-n", "100", "--npn-list=h2", "--rps=50"]
    tail = ["--log-file={workdir}/requests.log", "--connect-to=[::1]:443", "-i", "{workdir}/urls"]
    assert built.argv == head + tail
    assert built.input_files == {"urls": "https://a.example/\nhttps://a.example/b\n"}


def test_wrk_argv_matches_arguments() -> None:
    raw = {"concurrency": 8, "threads": 2, "keepalive": False}
    built = command(Tool.WRK, clean("wrk", raw), ["/", "/b"], SITE)
    head = ["wrk", "-c", "8", "-t", "2", "-d", "10s", "--timeout", "30s", "--latency", "-s", "{workdir}/wrk.lua"]
    assert built.argv == [*head, "-H", "Connection: close", "http://a.example:8080/"]
    assert built.input_files == {"urls": "/\n/b\n"}


def test_wrk_gets_method_of_single_request() -> None:
    built = command(Tool.WRK, clean("wrk", {}), ["POST /b"], SITE)
    assert built.argv[-1] == "http://a.example:8080/b"
    assert built.input_files == {"urls": "POST /b\n"}


def test_siege_argv_matches_arguments() -> None:
    built = command(Tool.SIEGE, clean("siege", {"requests": 50, "concurrency": 5}), ["/"], SITE)
    head = ["siege", "-R", "{workdir}/siegerc", "-b", "-c", "5", "-r", "10"]
    assert built.argv == [*head, "-H", "Host: a.example:8080", "-f", "{workdir}/urls"]
    assert built.input_files["urls"] == "http://127.0.0.1:8080/\n"
    assert "parser = false\n" in built.input_files["siegerc"]
    secure = command(Tool.SIEGE, clean("siege", {"requests": 50, "concurrency": 5, "tls": True}), ["/"], SECURE)
    assert secure.input_files["urls"] == "https://a.example/\n"


def test_hey_argv_matches_arguments() -> None:
    raw = {"requests": 500, "concurrency": 5, "threads": 2, "keepalive": False, "gzip": True}
    argv = command(Tool.HEY, clean("hey", raw), ["/x"], SITE).argv
    head = ["hey", "-c", "5", "-cpus", "2", "-t", "30", "-n", "500", "-disable-redirects", "-disable-compression"]
    tail = ["-host", "a.example:8080", "http://127.0.0.1:8080/x"]
    at = argv.index("-o")
    assert argv[:at] == [*head, "-disable-keepalive", "-H", "Accept-Encoding: gzip"]
    assert argv[at + 2 :] == tail


@pytest.mark.parametrize(("tool", "words"), [("ab", "Host: a.example"), ("hey", "a.example")])
def test_tls_name_of_ab_and_hey_has_no_port(tool: str, words: str) -> None:
    """Both send it as SNI too, which must not have a port (RFC 6066, 3); gallop rejects such a handshake."""
    secure = Endpoint("127.0.0.1", 8443, "a.example", tls=True)
    argv = command(Tool(tool), clean(tool, {**SECONDS, "tls": True}), ["/"], secure).argv
    assert argv[-2:] == [words, "https://127.0.0.1:8443/"]


@pytest.mark.parametrize("tool", list(Tool))
def test_warm_up_is_same_load_by_time(tool: Tool) -> None:
    raw = SECONDS if tool == Tool.WRK else {"requests": 100}
    argv = command(tool, clean(tool, raw), ["/"], SITE, seconds=2).argv
    option, seconds = {
        Tool.AB: ("-t", "2"),
        Tool.H2LOAD: ("-D", "2"),
        Tool.WRK: ("-d", "2s"),
        Tool.SIEGE: ("-t", "2S"),
        Tool.HEY: ("-z", "2s"),
    }[tool]
    assert argv[argv.index(option) + 1] == seconds


def test_ipv6_listener_is_bracketed_in_every_argv() -> None:
    endpoint = Endpoint("::1", 8080, "::1")
    argv = command(Tool.AB, clean("ab", SECONDS), ["/"], endpoint).argv
    assert argv[-2:] == ["Host: [::1]:8080", "http://[::1]:8080/"]
