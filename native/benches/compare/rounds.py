"""Runs a case: every server in every round, one after the other, so that a slow minute hits all of them."""

from __future__ import annotations

import hashlib
import http.client
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compare import memory, system
from compare.cases import Case
from compare.servers import NAMES, Place, Server, build

Result = dict[str, dict[str, float]]
#: Why a peer was left out of a case.
Failures = dict[str, str]
#: What a server that does not answer, answers wrongly or ends makes of a run.
BROKEN = (RuntimeError, OSError, http.client.HTTPException, subprocess.SubprocessError)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class World:
    """Content, certificate, php-fpm and the upstream that all servers share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.root = folder / "html"
        self.root.mkdir()
        for name, size in {"small.html": 163, "4k.html": 4096, "1m.bin": 1_000_000, "10m.bin": 10_000_000}.items():
            (self.root / name).write_bytes((b"0123456789abcdef" * (size // 16 + 1))[:size])
        (self.root / "hello.php").write_text("<?php echo 'Hello, world';")
        self.certificate, self.key = folder / "cert.pem", folder / "key.pem"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run(["openssl", "req", "-x509", *curve, *names, *files], check=True, capture_output=True)
        self.key.chmod(0o644)
        self.upstream = self._server("limit", "upstream", 0, "http1")
        assert self.upstream is not None
        self.upstream.start()
        self.php = self._php_fpm()

    def _php_fpm(self) -> subprocess.Popen[bytes]:
        conf = self.folder / "fpm.conf"
        conf.write_text(
            f"[global]\nerror_log = {self.folder}/fpm.log\ndaemonize = no\n[www]\nlisten = {self.folder}/fpm.sock\n"
            "listen.mode = 0666\nuser = www-data\ngroup = www-data\npm = static\npm.max_children = 4\n"
        )
        binary = next(iter(sorted(Path("/usr/sbin").glob("php-fpm*"))), None)
        if binary is None:
            raise RuntimeError("php-fpm is not installed")
        return subprocess.Popen([str(binary), "-F", "-y", str(conf)], stderr=subprocess.DEVNULL)

    def _server(self, name: str, folder: str, upstream: int, needs: str) -> Server | None:
        place = Place(self.folder / folder, self.root, self.certificate, self.key, upstream, self.folder / "fpm.sock")
        return build(name, place, needs)

    def servers(self, needs: str) -> list[Server]:
        assert self.upstream is not None
        found = [self._server(name, name, self.upstream.place.plain, needs) for name in NAMES]
        return [server for server in found if server is not None and needs in server.speaks]

    def close(self) -> None:
        self.php.terminate()
        self.php.wait()
        if self.upstream is not None:
            self.upstream.stop()


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="gallop-compare-") as folder:
        made = World(Path(folder))
        try:
            yield made
        finally:
            made.close()


@contextmanager
def running(servers: list[Server], failures: Failures) -> Iterator[None]:
    try:
        for server in servers:
            try:
                server.start()
            except BROKEN as error:
                _gave_up(server, error, failures)
        yield
    finally:
        for server in servers:
            server.stop()


def _check(servers: list[Server], case: Case) -> None:
    """All of them answer alike, or the comparison is worth nothing."""
    if "http3" in case.needs or case.path in {"/proxy", "/site", "/near"}:
        return
    bodies = {}
    for server in servers:
        client = http.client.HTTPConnection("127.0.0.1", server.place.plain, timeout=10)
        try:
            client.request("GET", case.path)
            answer = client.getresponse()
            body = answer.read()
        except OSError as error:
            raise RuntimeError(f"{server.name} does not answer: {error}\n{server.said()}") from error
        if server.name != "limit":
            bodies[server.name] = (answer.status, hashlib.sha256(body).hexdigest())
        client.close()
    if len(set(bodies.values())) != 1 or next(iter(bodies.values()))[0] != 200:
        raise RuntimeError(f"{case.name}: the servers answer differently: {bodies}")


def _gave_up(server: Server, error: Exception, failures: Failures) -> None:
    """Notes why a peer takes no more part in a case. Without gallop nothing is compared: then the case ends."""
    if server.name == "gallop":
        raise error
    failures[server.name] = (str(error).strip() or type(error).__name__).splitlines()[0]
    note(f"{server.name} is left out: {failures[server.name]}")


def _sample(server: Server, case: Case) -> tuple[float, float, float]:
    """CPU microseconds per request, requests per second and peak resident bytes of one run."""
    system.reset_peak(server.pid)
    before = system.cpu_seconds(server.pid)
    load = case.run(server)
    cpu = system.cpu_seconds(server.pid) - before
    if load.failed > load.requests / 1000 or not load.requests:
        raise RuntimeError(f"{load.failed} requests failed, {load.requests} did not\n{server.said()}")
    return cpu / load.requests * 1e6, load.requests / load.seconds, float(system.peak_rss(server.pid))


def run_case(made: World, case: Case, rounds: int) -> tuple[Result, Failures]:
    """Medians by server: CPU microseconds per request, requests per second, peak resident bytes."""
    servers = made.servers(case.needs)
    samples: dict[str, list[tuple[float, float, float]]] = {server.name: [] for server in servers}
    failures: Failures = {}
    with running(servers, failures):
        _check([server for server in servers if server.name not in failures], case)
        for number in range(rounds + 1):
            for server in servers:
                if server.name in failures:
                    continue
                try:
                    samples[server.name].append(_sample(server, case))
                except BROKEN as error:
                    _gave_up(server, error, failures)
            if number == 0:  # Caches are filled and buffers grown before anything counts.
                samples = {name: [] for name in samples}
                continue
            line = ", ".join(f"{name} {values[-1][0]:.2f}" for name, values in samples.items() if name not in failures)
            note(f"{case.name} round {number}: us per request: {line}")
    samples = {name: values for name, values in samples.items() if name not in failures}
    return _medians(samples), failures


def _medians(samples: dict[str, list[tuple[float, float, float]]]) -> Result:
    result: Result = {}
    reference = samples["gallop"]
    for name, values in samples.items():
        ratios = [theirs[0] / ours[0] for theirs, ours in zip(values, reference, strict=True) if ours[0]]
        result[name] = {
            "us": statistics.median(v[0] for v in values),
            "rate": statistics.median(v[1] for v in values),
            "peak_rss": statistics.median(v[2] for v in values),
            "ratio": statistics.median(ratios),
            "ratio_low": min(ratios),
            "ratio_high": max(ratios),
            "rounds": len(values),
        }
    return result


def run_each(
    made: World, needs: str, measure: Callable[[Server], dict[str, float]], *, rounds: int
) -> tuple[Result, Failures]:
    """Cases that want a fresh server each time; medians."""
    samples: dict[str, list[dict[str, float]]] = {}
    failures: Failures = {}
    for _ in range(rounds):
        for server in made.servers(needs):
            if server.name == "limit" or server.name in failures:
                continue
            try:
                if measure is not memory.many_blocks:
                    server.start()
                samples.setdefault(server.name, []).append(measure(server))
                note(f"{measure.__name__}: {server.name}: {samples[server.name][-1]}")
            except BROKEN as error:
                _gave_up(server, error, failures)
                samples.pop(server.name, None)
            finally:
                server.stop()
    result = {name: {k: statistics.median(v[k] for v in values) for k in values[0]} for name, values in samples.items()}
    return result, failures
