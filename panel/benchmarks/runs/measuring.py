"""Measurement of one claimed run, from the first check to the final judgment."""

from __future__ import annotations

import signal
from dataclasses import asdict, replace
from typing import Any, cast

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from agents.protocol import BenchRequest
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run, RunStatus
from panel.benchmarks.records import (
    BenchOutcome,
    Fingerprint,
    HostFacts,
    Link,
    Response,
    TargetFacts,
    TestbedFacts,
    ToolFacts,
)
from panel.benchmarks.runs import comparability, connection_loss, validity
from panel.benchmarks.runs.aims import Aim, site_aims
from panel.benchmarks.runs.measured import measured_json
from panel.benchmarks.runs.responses import responses_of
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.suites.definitions import stored_case
from panel.benchmarks.testbeds import lifecycle
from panel.benchmarks.tools.arguments import Arguments, method_and_path
from panel.benchmarks.tools.commands import BUNDLED, Command, command
from panel.benchmarks.tools.parsers import Output, ParseError, parse
from panel.core.errors import ApplicationError
from panel.hosts import programs
from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import RemoteError

SAMPLE_HZ = 5.0
# Time without load before and after each round, so that charts show where the load begins and ends.
IDLE_S = 0.5
CALL_SPARE_S = 30.0
# siege ends its threads at any point, even during memory management; it may then hang or crash.
SIEGE_END_S = 60.0
# A load tool that crashes or hangs loses its counters, so the round is repeated up to this many times. Results are
# never selected, and the repetition is noted with the result.
REPEATS = 2
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


class Cancelled(Exception):
    """Raised if a user cancelled the run."""


class LostRun(Exception):
    """Raised if this worker no longer owns the run, because another worker owns the run or the run has ended."""


class Measuring:
    def __init__(self, run: Run, token: str) -> None:
        self.run = run
        self.token = token
        self.tool = Tool(run.parameters["tool"])
        self.arguments: Arguments = run.parameters["arguments"]
        self.paths: list[str] = run.parameters["paths"]
        self.aims: list[Aim] = []
        self.bundled = 0  # threads of the bundled load generator, if it replaces h2load
        self.network: Link | None = None
        self.programs: dict[str, str] = {}  # bundled programs: SHA-256 by name
        self.testbeds: dict[str, TestbedFacts] = {}  # by host, the agent's data to find leftovers
        self.uploaded: dict[str, dict[str, str]] = {}  # the load generator on each host outside a test bed
        self.after: Fingerprint
        self.lost: Aim | None = None  # the target whose host stopped responding

    # --- the whole ---

    def measure(self) -> None:
        """Measure all rounds. Raises Cancelled, LostRun, or an ApplicationError whose message is the run's failure."""
        if "testbed" not in self.run.parameters:
            self.aims = site_aims(self.run)
            self._measure_sites()
            return
        self._note("Starting the web servers")
        with lifecycle.testbed_open(self.run, self._check, self._wait) as testbed:
            self.aims, self.network, self.testbeds = testbed.aims, testbed.network, testbed.known
            self.programs = testbed.programs
            self._measure_all()

    def _measure_sites(self) -> None:
        try:
            self._measure_all()
        except RemoteError as error:
            if self.lost is None or not connection_loss.is_connection_loss(error):
                raise
            known = self.run.fingerprint.get("hosts", {}).get(self.lost.host, {})
            asked = {"boot": known.get("boot", "")}
            raise ApplicationError(connection_loss.told(error, self.lost.remote, asked, self._wait)) from error

    def _measure_all(self) -> None:
        self._note("Checking the hosts")
        before = self._fingerprint()
        self._require_tool(before)
        before["hosts"] = {name: self._with_programs(host) for name, host in before["hosts"].items()}
        self._save(fingerprint={**before, **({"testbeds": self.testbeds} if self.testbeds else {})})
        rounds = self.run.parameters["rounds"]
        if self.run.parameters["warmup_s"]:
            for aim in self.aims:
                self._note(f"Warming up {aim.row.label}")
                self._round(aim, 0)
        for number in range(1, rounds + 1):
            for aim in self.aims:
                self._note(f"Round {number} of {rounds}: {aim.row.label}")
                self._round(aim, number)
        self._note("Checking the hosts again")
        self.after = self._fingerprint()

    def judge(self) -> list[str]:
        """Store the run's summary; return sentences why the run is invalid, or [] if the run is valid."""
        rounds = selectors.measured_rounds(self.run)
        hosts = [self.run.fingerprint["hosts"][aim.loaded_from.name] for aim in self.aims]
        parameters = self.run.parameters
        if self.bundled:
            parameters = {**parameters, "tool": BUNDLED, "arguments": {**self.arguments, "threads": self.bundled}}
        reasons = validity.reasons(
            parameters,
            rounds,
            min(host["cpus_usable"] for host in hosts),
            comparability.changes(self.run.fingerprint, self.after),
        )
        reasons += self._network_reasons()
        self._save(summary=summarize(rounds, {aim.row.position: aim.row.engine for aim in self.aims}))
        return reasons

    def _network_reasons(self) -> list[str]:
        """Return a sentence for each property of the emulated link that makes the run invalid; [] if none does."""
        if not self.network:
            return []
        network = stored_case(self.run.parameters["testbed"]["case"]).network
        found = network.deviations(self.network["measured"]) if network else []
        return [f"The emulated link differed from its profile: {words}." for words in found]

    # --- the row ---

    def _note(self, progress: str) -> None:
        self._check()
        self._save(progress=progress)

    def _wait(self) -> None:
        self._note("The host is not reachable; waiting up to ten minutes")

    def _check(self) -> None:
        row = Run.objects.filter(pk=self.run.pk, claimed_by=self.token, status=RunStatus.RUNNING)
        state = row.values_list("cancel_requested", flat=True).first()
        if state is None:
            raise LostRun
        if state:
            raise Cancelled

    def _save(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.run, name, value)
        row = Run.objects.filter(pk=self.run.pk, claimed_by=self.token, status=RunStatus.RUNNING)
        if not row.update(**values, row_version=F("row_version") + 1):
            raise LostRun

    # --- hosts ---

    def _call(self, aim: Aim, op: str, args: Message, timeout: float, *, watch: bool = False) -> Message:
        try:
            with pool.session(aim.remote) as agent:
                return agent.call(op, args, on_event=(lambda event: self._check()) if watch else None, timeout=timeout)
        except RemoteError:
            self.lost = aim
            raise

    def _fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the run: facts about every host and target. Before the first round, raise
        NotComparable if a target responds with an error or the targets' responses differ.
        """
        hosts: dict[str, HostFacts] = {}
        for aim in self.aims:
            for place in {aim.remote.name: aim.remote, aim.loaded_from.name: aim.loaded_from}.values():
                if place.name not in hosts:
                    found = self._call(replace(aim, remote=place), "fingerprint", {}, CALL_SPARE_S)
                    hosts[place.name] = self._with_programs(cast(HostFacts, found))
        answers = [self._answers(aim) for aim in self.aims]
        if not self.run.fingerprint:
            labels = [aim.row.label for aim in self.aims]
            dynamic = bool(self.arguments["dynamic"])
            comparability.check_answers(labels, self.paths, answers, dynamic=dynamic)
        targets = [self._described(aim, own) for aim, own in zip(self.aims, answers, strict=True)]
        fingerprint: Fingerprint = {"hosts": hosts, "targets": targets}
        if self.network:
            fingerprint["network"] = self.network
        if self.aims[0].load:
            fingerprint["load_from"] = self.aims[0].load.name
        return fingerprint

    def _with_programs(self, host: HostFacts) -> HostFacts:
        return {**host, "programs": self.programs} if self.programs else host

    def _described(self, aim: Aim, answers: list[Response]) -> TargetFacts:
        # Header fields vary by themselves: Apache's entity tags are weak while a file is a second old.
        left_out = {"start", "headers", *(("sha256", "bytes") if self.arguments["dynamic"] else ())}
        content = [
            cast(Response, {key: value for key, value in answer.items() if key not in left_out}) for answer in answers
        ]
        return {
            "label": aim.row.label,
            "host": aim.host,
            **aim.server(),
            "base_url": aim.endpoint.base_url,
            "listener": aim.endpoint.target,
            "content": dict(zip(self.paths, content, strict=True)),
        }

    def _answers(self, aim: Aim) -> list[Response]:
        gzip = bool(self.arguments["gzip"])
        return responses_of(aim.remote, aim.endpoint, self.paths, gzip=gzip, testbed=aim.testbed)

    def _require_tool(self, fingerprint: Fingerprint) -> None:
        for host in dict.fromkeys(aim.loaded_from.name for aim in self.aims):
            found = fingerprint["hosts"][host]
            tool = found["tools"].get(self.tool.value)
            if self._needs_bundled(tool):
                # More threads than CPUs would only slow down the server.
                self.bundled = min(int(self.arguments.get("threads") or 1), max(1, found["cpus_usable"] - 1))
            elif tool is None:
                raise ApplicationError(
                    f"{self.tool} is not installed on {host}. Install the tool, then start the run again."
                )
        if self.bundled and "testbed" not in self.run.parameters:
            self._bring_bundled()

    def _needs_bundled(self, tool: ToolFacts | None) -> bool:
        """Return whether the run needs the bundled load generator on all its hosts.
        The bundled generator is needed for HTTP/3 without support in the host's h2load, for methods other than GET, and
        for a fixed request rate: with --rps, h2load measures the latency of a late request from the time it was sent,
        not from the time it was due. All hosts then use the bundled generator, because results of different tools are
        not comparable.
        """
        if self.tool != Tool.H2LOAD:
            return False
        if self.arguments.get("protocol") == "h3" and not (tool and tool["h3"]):
            return True
        return bool(self.arguments.get("rate_rps")) or {method_and_path(path)[0] for path in self.paths} != {"GET"}

    def _bring_bundled(self) -> None:
        """Upload the bundled load generator to every host of a run of deployed sites. For runs in a test bed, the start
        of the test bed uploads the load generator.
        """
        for aim in self.aims:
            if aim.host not in self.uploaded and aim.row.revision is not None:
                host = aim.row.revision.web_server.host
                with pool.session(aim.remote) as agent:
                    brought = programs.upload(host, agent, settings.LOAD_BINARY, BUNDLED, "PADDOCK_LOAD")
                self.uploaded[aim.host] = brought
                self.programs = {BUNDLED: brought["sha256"]}

    # --- rounds ---

    def _round(self, aim: Aim, number: int) -> None:
        """Measure one round of one target and store it. Number 0 is the warm-up, which is stored but not evaluated."""
        seconds = self.run.parameters["warmup_s"] if number == 0 else 0
        parser = bool(self.run.parameters.get("testbed", {}).get("case", {}).get("parser"))
        built = command(
            self.tool, self.arguments, self.paths, aim.endpoint, seconds=seconds, parser=parser, bundled=self.bundled
        )
        row = Round.objects.create(target=aim.row, number=number, argv=built.argv, started_at=timezone.now())
        request = self._request(aim, built, seconds, idle=number > 0)
        timeout = request.timeout_s + 2 * request.idle_s + CALL_SPARE_S
        try:
            result = self._bench(aim, request, timeout)
            for _repeat in range(REPEATS):
                if not (why := self._lost_by(built.argv[0], result)):
                    break
                again = self._bench(aim, request, timeout)
                logged = result.get("server_log", "") + again.get("server_log", "")
                result = {**again, "server_log": logged, "before": [*result.get("before", ()), why]}
        except BaseException as error:
            words = error.message if isinstance(error, ApplicationError) else "The round ended early."
            Round.objects.filter(pk=row.pk).update(error=words, finished_at=timezone.now())
            raise
        _keep(row, built.argv[0], result)

    def _lost_by(self, tool: str, result: BenchOutcome) -> str:
        """Return a sentence if the load tool itself made the round fail, by a crash, or by hanging after the load
        (siege). Return "" if the tool reported a result, or failed for another reason.
        """
        if self.tool == Tool.SIEGE and result["stopped"] == "timeout":
            return f"{tool} hung at the end of this round and reported no figures; the round was repeated."
        if name := _crash(result):
            return f"{tool} crashed ({name}) and reported no figures; the round was repeated."
        return ""

    def _bench(self, aim: Aim, request: BenchRequest, timeout: float) -> BenchOutcome:
        """Generate the load of one round; return the tool's output with the samples and CPU time of all process trees.
        If the load comes from another host, the servers are monitored during the whole round.
        """
        if aim.load is None:
            return cast(BenchOutcome, self._call(aim, "bench", asdict(request), timeout, watch=True))
        asked = {"id": aim.testbed, "trees": aim.trees, "hz": request.sample_hz}
        with pool.session(aim.remote) as servers:
            watching = servers.ask("testbed", {"action": "watch", **asked})
            try:
                away = replace(aim, remote=aim.load)
                found = self._call(away, "bench", asdict(replace(request, trees={})), timeout, watch=True)
            finally:
                servers.call("testbed", {"action": "watched", "id": aim.testbed}, timeout=CALL_SPARE_S)
            seen = watching.result(timeout=CALL_SPARE_S)
        result = cast(BenchOutcome, found)
        result["samples"] = {**seen["samples"], **result["samples"]}
        result["cpu_s"] = {**seen["cpu_s"], **result["cpu_s"]}
        result["server_log"] = seen["server_log"]
        return result

    def _limit_s(self, warmup_s: float) -> float:
        """Return the time limit of a whole round in seconds. For siege, which sometimes hangs at its end, the limit is
        at most SIEGE_END_S after the end of the load.
        """
        limit = float(self.run.parameters["timeout_s"])
        seconds = warmup_s or float(self.arguments["duration_s"] or 0)
        return min(limit, seconds + SIEGE_END_S) if self.tool == Tool.SIEGE and seconds else limit

    def _request(self, aim: Aim, built: Command, seconds: float, *, idle: bool) -> BenchRequest:
        return BenchRequest(
            argv=built.argv,
            target=aim.endpoint.target,
            allowed=aim.allowed,
            timeout_s=self._limit_s(seconds),
            sample_hz=SAMPLE_HZ,
            trees=aim.trees,
            input_files=built.input_files,
            outputs=built.outputs,
            idle_s=float(self.run.parameters.get("idle_s", IDLE_S)) if idle else 0.0,
            testbed=aim.testbed,
            program=self.uploaded.get(aim.host) if self.bundled else None,
        )


def _keep(row: Round, tool: str, result: BenchOutcome) -> None:
    """Store the complete output of the load tool, then the figures parsed from the output or the reason why there are
    none.
    """
    row.exit_code = result["exit_code"]
    row.output = _whole(result)
    row.samples = result["samples"]
    row.finished_at = timezone.now()
    output = Output(result["stdout"], result["stderr"], result["exit_code"], result["outputs"], result["latency"])
    try:
        if result["stopped"] == "timeout":
            raise ParseError(f"{tool} exceeded the time limit and was stopped.")
        if result["disk_full"]:
            raise ParseError(
                f"The host's disk is full, so the output of {tool} is incomplete. Free disk space "
                f"on the host, then start the run again."
            )
        if name := _crash(result):
            tries = 1 + len(result.get("before", ()))
            raise ParseError(
                f"{tool} crashed ({name}); Paddock tried the round {tries} times. This is a bug in the "
                "load tool, not in the web server. Use another version or another tool."
            )
        if result["exit_code"] < 0 and not result["stopped"]:
            name = signal.Signals(-result["exit_code"]).name
            raise ParseError(
                f"{tool} was stopped by signal {name} from another process. Check the host's log for the cause."
            )
        row.metrics = measured_json(parse(tool, output), result)
    except ParseError as error:
        row.error = str(error)
    row.save()


def _crash(result: BenchOutcome) -> str:
    """Return the name of the signal with which the load tool crashed; "" if it did not crash."""
    ended = -result["exit_code"]
    return signal.Signals(ended).name if ended in CRASHES and not result["stopped"] else ""


def _whole(result: BenchOutcome) -> str:
    parts = [*(f"paddock: {why}" for why in result.get("before", ())), result["stdout"]]
    if result["stderr"].strip():
        parts.append(f"--- standard error ---\n{result['stderr']}")
    if log := result.get("server_log", "").strip():
        parts.append(f"--- error logs of the web servers ---\n{log}")
    parts += [f"--- {name} ---\n{text}" for name, text in result["outputs"].items() if text]
    return "\n".join(parts)
