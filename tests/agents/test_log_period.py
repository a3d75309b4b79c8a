"""Search in the logs of some time, and requests by hour: rotated and compressed files, limits, hostile lines."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.host import log_period
from agents.host.log_times import time_of
from tests.agents.process import AgentError, AgentProcess

DAY = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
BEGIN, END = DAY.timestamp(), DAY.timestamp() + 86_400


def line(hour: float, path: str, status: int = 200, size: int | str = 10) -> str:
    at = DAY + dt.timedelta(hours=hour)
    return f'192.0.2.1 - - [{at:%d/%b/%Y:%H:%M:%S +0000}] "GET {path} HTTP/1.1" {status} {size} "-" "curl"\n'


def asked(agent: AgentProcess, log: Path, text: str = "", most: int = 100, **more: Any) -> Any:
    args = {"path": str(log), "roots": [str(log.parent)], "begin": BEGIN, "end": END, "text": text, "most": most}
    return agent.call("log_period", {**args, **more})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A day in three files, with requests of the days before and after."""
    (tmp_path / "access.log").write_text(line(20, "/late", 404, 7) + line(24, "/tomorrow"))
    (tmp_path / "access.log.1").write_text(line(9, "/Shop/cart") + line(9.5, "/shop", 500, "-") + line(19, "/x", 301))
    with gzip.open(tmp_path / "access.log.2.gz", "wt") as file:
        file.write(line(-1, "/shop/yesterday") + line(8.5, "/shop/early"))
    (tmp_path / "access.log.3").write_text(line(8.6, "/shop/untouched"))
    os.utime(tmp_path / "access.log.3", (BEGIN - 10, BEGIN - 10))  # not written to since that day began
    for age, name in enumerate(("access.log", "access.log.1", "access.log.2.gz")):
        os.utime(tmp_path / name, (END - age, END - age))
    (tmp_path / "access.log.backup").write_text(line(8, "/shop/of-somebody-else"))
    return tmp_path / "access.log"


def paths_of(result: Any) -> list[str]:
    return [row.split()[6] for row in result["lines"]]


def test_search_finds_lines_of_day_in_rotated_and_compressed_files(agent: AgentProcess, log: Path) -> None:
    found = asked(agent, log, "shop")
    assert paths_of(found) == ["/shop/early", "/Shop/cart", "/shop"]
    assert (found["matching"], found["is_complete"]) == (3, True)
    assert paths_of(asked(agent, log, "shop", 2)) == ["/Shop/cart", "/shop"]
    assert paths_of(asked(agent, log, '" 404 ')) == ["/late"]
    assert asked(agent, log, "nothing like it")["lines"] == []


def test_requests_are_counted_by_hour_with_statuses_and_bytes(agent: AgentProcess, log: Path) -> None:
    hours = asked(agent, log, most=0)["hours"]
    assert [(int((row["begin"] - BEGIN) // 3600), row["requests"], row["bytes"]) for row in hours] == [
        (8, 1, 10),
        (9, 2, 10),
        (19, 1, 10),
        (20, 1, 7),
    ]
    assert [row["statuses"] for row in hours] == [{"2": 1}, {"2": 1, "5": 1}, {"3": 1}, {"4": 1}]


@pytest.mark.parametrize(
    "written",
    [
        '{"time":"2026-11-26T10:30:00+00:00","request":"GET / HTTP/1.1","status":200,"bytes":5}',
        '{"time":"2026-11-26T10:30:00+0000","request":"GET / HTTP/1.1","status":200,"bytes":5,"milliseconds":2}',
        '192.0.2.1 - - [26/Nov/2026:11:30:00 +0100] "GET / HTTP/1.1" 200 5',
        '192.0.2.1 - - [26/Nov/2026:10:30:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" 0.001',
    ],
)
def test_every_access_log_format_is_read(agent: AgentProcess, tmp_path: Path, written: str) -> None:
    (tmp_path / "access.log").write_text(f"{written}\n")
    (hour,) = asked(agent, tmp_path / "access.log")["hours"]
    assert hour == {"begin": BEGIN + 10 * 3600, "requests": 1, "statuses": {"2": 1}, "bytes": 5}


@pytest.mark.parametrize(
    "written",
    [
        "2026/11/26 10:30:00 [error] 7#7: *1 open() failed",
        "2026-11-26 10:30:00.123456 [ERROR] [1] failed",
        "[Thu Nov 26 10:30:00.123456 2026] [core:error] [pid 7] failed",
        "[Thu Nov 26 10:30:00 2026] [error] failed",
    ],
)
def test_error_logs_have_times_of_host_and_lines_that_continue(
    agent: AgentProcess, tmp_path: Path, written: str
) -> None:
    local = dt.datetime(2026, 11, 26, 10, 30).timestamp()
    assert time_of(written.encode()) == local
    (tmp_path / "error.log").write_text(f"stack of an earlier error\n{written}\n  at line 7 of failed.php\n")
    found = asked(agent, tmp_path / "error.log", "failed")
    assert found["lines"] == [written, "  at line 7 of failed.php"]


def test_log_larger_than_limit_is_read_from_its_end_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_period, "MAX_BYTES", 1000)
    path = tmp_path / "access.log"
    path.write_text("".join(line(number / 100, f"/{number}") for number in range(100)))
    args = {"path": str(path), "roots": [str(tmp_path)], "begin": BEGIN, "end": END, "text": "", "most": 50}
    found = log_period.run(args, lambda _event: None, _never())
    assert not found["is_complete"]
    assert paths_of(found)[-1] == "/99" and 5 < len(found["lines"]) < 14


def _never() -> Any:
    import threading

    return threading.Event()


def test_compressed_bomb_ends_at_limit_of_bytes(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(line(1, "/now"))
    with gzip.open(tmp_path / "access.log.1.gz", "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b"x" * (1024 * 1024))
    found = asked(agent, tmp_path / "access.log")
    assert paths_of(found) == ["/now"]
    assert not found["is_complete"]


def test_damaged_compressed_file_gives_what_it_has(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("")
    packed = gzip.compress("".join(line(2, f"/{number}") for number in range(2000)).encode())
    (tmp_path / "access.log.1.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "access.log.2.gz").write_bytes(b"no gzip at all")
    assert 0 < asked(agent, tmp_path / "access.log")["matching"] < 2000


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"begin": BEGIN, "end": BEGIN}, "invalid"),
        ({"begin": 0, "end": END}, "invalid"),
        ({"text": "x" * 501}, "invalid"),
        ({"most": 1001}, "invalid"),
        ({"path": "/etc/passwd"}, "refused"),
        ({"path": "/nowhere/at/all.log", "roots": ["/nowhere"]}, "missing"),
    ],
)
def test_requests_outside_limits_are_refused(agent: AgentProcess, log: Path, more: dict[str, Any], code: str) -> None:
    with pytest.raises(AgentError) as error:
        asked(agent, log, **more)
    assert error.value.code == code


def test_rotated_name_that_is_link_is_not_read(agent: AgentProcess, log: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text(line(10, "/secret"))
    (tmp_path / "access.log.4").symlink_to(tmp_path / "elsewhere" / "secret")
    assert asked(agent, log, "secret")["lines"] == []
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere" / "secret")
    with pytest.raises(AgentError) as error:
        asked(agent, log, "secret")
    assert error.value.code == "refused"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_read_without_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(content + line(3, "/seen").encode())
    args = {"path": str(path), "roots": [str(tmp_path)], "begin": BEGIN, "end": END, "text": "", "most": 10}
    found = log_period.run(args, lambda _event: None, _never())
    assert found["is_complete"] and found["matching"] >= (0 if content and not content.endswith(b"\n") else 1)
