"""The servers' own configuration test over many rendered sites at once.

A server stops at the first line that it refuses; that line's site is taken out and the test repeated, so that each
refusal is seen with its reason. Reasons that have to do with the value's meaning (an expression that PCRE cannot
compile, a host that does not resolve) are counted; any other is a value that got out of its word.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from panel.rendering import render_main
from panel.rendering.spec import WebServerSpec
from tests.support.gallop import gallop_binary
from tests.support.process import tool

SERVERS = ("nginx", "gallop", "apache")
EXPRESSIONS = ("regex", "regex nocase", "regex name", "rewrite pattern")
LOGS = ("access log", "error log")
REASONS = {
    "no regular expression": r"pcre2?_compile\(\) failed|[Rr]egular expression|could not be compiled|regex",
    "a host that does not resolve": r"host not found in|could not resolve",
}
LINE = re.compile(r"(?:sites\.conf:|on line |sites\.conf, line )(\d+)")


def refused_by_server(engine: str, field: str, batch: list[tuple[str, list[str]]]) -> tuple[Counter[str], list[str]]:
    """How many were refused for which known reason, and what was refused for another."""
    reasons: Counter[str] = Counter()
    escapes: list[str] = []
    left = list(batch)
    if field in EXPRESSIONS:
        left = [item for item in batch if _compiles(item[0])]
        reasons["no regular expression"] = len(batch) - len(left)
    with TemporaryDirectory(prefix="pd-") as folder:
        if field in LOGS:  # the servers open them
            opened = [item for item in left if _can_be_a_file(Path(folder), item[0])]
            reasons["a log's path that names no file"] = len(left) - len(opened)
            left = opened
        while left:
            status, said, number = configtest(engine, Path(folder), left)
            if status == 0:
                break
            if status < 0 or number is None:
                escapes.append(f"the server's test ended with {status}: {said[-300:]}")
                break
            value, _ = left.pop(number)
            why = next((name for name, pattern in REASONS.items() if re.search(pattern, said)), "")
            if why:
                reasons[why] += 1
            else:
                escapes.append(f"{value!r}: {said[-300:]}")
    return +reasons, escapes


def _can_be_a_file(folder: Path, name: str) -> bool:
    """Makes the folders around it, so that only what is written decides."""
    path = f"{folder}/{name}"
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a"):
            return True
    except OSError:
        return False


def configtest(engine: str, folder: Path, batch: list[tuple[str, list[str]]]) -> tuple[int, str, int | None]:
    """The test's exit status, what it said, and the number of the site that it refused."""
    text, ends = "", []
    for number, (_, files) in enumerate(batch):
        # All are of one site; its zones, upstreams and caches may be there once.
        one = "".join(files).replace("paddock_site_", f"paddock_s{number}_")
        text += one.replace("/var/log/", f"{folder}/").replace("/var/cache/", f"{folder}/cache-{number}-")
        ends.append(text.count("\n"))
    (folder / "sites.conf").write_text(text)
    done = subprocess.run(_command(engine, folder), capture_output=True, text=True, errors="replace", timeout=300)
    said = done.stdout + done.stderr
    found = [int(line) for line in LINE.findall(said)]
    refused = next((n for n, end in enumerate(ends) if found and found[0] <= end), None)
    return done.returncode, said, refused


def _command(engine: str, folder: Path) -> list[str]:
    main = folder / "main.conf"
    main.write_text(_main(engine, str(folder)))
    if engine == "apache":
        return [tool("apache2", "httpd"), "-t", "-d", str(folder), "-f", str(main)]
    binary = tool("nginx") if engine == "nginx" else gallop_binary()
    return [binary, "-t", "-p", str(folder), "-c", str(main), "-e", "stderr"]


@cache
def _main(engine: str, folder: str) -> str:
    """The main file that the panel writes, including the sites of this folder only."""
    kind = "native" if engine == "gallop" else engine
    layout = "sites" if engine == "apache" else "conf_d"
    web_server = WebServerSpec(kind, layout, folder, folder)  # type: ignore[arg-type]
    main, *more = render_main(web_server, temp_dir=folder, pid_file=f"{folder}/pid")
    for file in more:
        Path(file.path).write_text(file.text)
    pattern = r"sites-enabled/\*\.conf" if layout == "sites" else r"\S*conf\.d/\*\.conf"
    extra = "\nListen 65530" if engine == "apache" else ""
    return re.sub(pattern, f"{folder}/sites.conf", main.text) + extra


@cache
def _pcre() -> ctypes.CDLL:
    library = ctypes.CDLL("libpcre2-8.so.0")
    library.pcre2_compile_8.restype = ctypes.c_void_p
    library.pcre2_code_free_8.argtypes = [ctypes.c_void_p]
    return library


def _compiles(pattern: str) -> bool:
    """Whether PCRE, which nginx and Apache use, takes the expression."""
    raw = pattern.encode("utf-8")
    error, offset = ctypes.c_int(), ctypes.c_size_t()
    code = _pcre().pcre2_compile_8(raw, ctypes.c_size_t(len(raw)), 0, ctypes.byref(error), ctypes.byref(offset), None)
    if code:
        _pcre().pcre2_code_free_8(code)
    return bool(code)
