"""Carry out one transaction: check, journal, stage, test, switch, reload, probe; roll back if a step fails.

All modules that a rollback needs are imported at the top, so that a missing module is noticed before anything changes.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from agents.host import checking, commands, faults, listeners, namespace, safe, shadow
from agents.host.changes import Plan
from agents.host.engines import engine_for
from agents.host.engines.base import Engine
from agents.host.errors import Cancelled, Refusal
from agents.host.request import ACTIONS, Request
from agents.host.staging import Stage
from agents.host.state import Journal
from agents.host.steps import Failed, Step, Steps
from agents.host.undo import Undo, clean_all

IN_PLACE = "in place, after the switch"
MAX_ANSWERS_TOLD = 20


class Transaction:
    """Transaction of one request. The caller must hold the host's lock. Setting `cancelled` has an effect until the
    first file is switched.
    """

    def __init__(self, request: Request, steps: Steps, cancelled: threading.Event) -> None:
        self._request = request
        self._steps = steps
        self._cancelled = cancelled
        self._journal = Journal(request.ident)
        self._engines = [engine_for(control) for control in request.engines]
        self._begun: dict[str, Any] = {}
        # Engines that can be tested only in place, with their errors before the switch if these matter.
        self._untested: list[tuple[Engine, commands.Done | None]] = []
        self._switched = False
        self._checks: list[dict[str, Any]] = []

    def run(self) -> dict[str, Any]:
        """Carry out the transaction and return an ApplyResult (agents/protocol.py) as a dictionary.

        Raise Refusal if nothing was started, for example if a file has drift or is outside the roots.
        """
        with self._steps.step("check") as step:
            for engine in self._engines:
                engine.require_own(self._request.administrators)
            plan = Plan(self._request)
            step.output = _summary(plan)
        faults.point("checked")
        running = [bool(engine.pid()) for engine in self._engines]
        if plan.is_empty and all(running) and not self._request.dry_run:
            return self._unchanged()
        try:
            self._begin(plan, running)
        except (Failed, OSError) as error:
            self._journal.discard()
            return self._steps.result("rolled_back", str(error))
        except Exception:
            self._journal.discard()
            raise
        try:
            with Stage(plan) as stage:
                self._prepare(plan, stage)
                if self._request.dry_run:
                    return self._tested_only()
                self._switch(stage)
                self._go_live(stage)
            self._verify()
        except (Failed, Refusal, OSError) as error:
            return self._undo(str(error))
        except Exception as error:
            # An error of the agent must not leave half a change; it is rolled back, then reported.
            self._undo("the agent failed (%s)" % type(error).__name__)
            raise
        return self._commit()

    def _unchanged(self) -> dict[str, Any]:
        """Return the result of a transaction whose files are all in the wanted state already.

        If the disk has no space to record the result, a repeated request computes the same result again.
        """
        with self._steps.step("probe") as step:
            rows = checking.observed(self._request)
            step.output = _answered(rows, 0)
        result = dict(self._steps.result("unchanged"), checks=checking.told(rows))
        try:
            self._journal.end(result)
            self._journal.close()
        except OSError:
            self._journal.discard()
        return result

    def _begin(self, plan: Plan, running: list[bool]) -> None:
        with self._steps.step("journal"):
            for change in plan.changes:
                if change.found.kind == "file":
                    self._journal.keep_old(change.number, change.old)
            self._begun = {
                "entries": plan.entries(),
                "engines": [
                    {"control": control, "was_running": running[number]}
                    for number, control in enumerate(self._request.engines)
                ],
                "roots": self._request.roots,
                "answers": checking.before(self._request),
            }
            self._journal.begin(self._begun)
        self._steps.journal = self._journal
        faults.point("journaled")

    def _prepare(self, plan: Plan, stage: Stage) -> None:
        self._require_ports()
        with self._steps.step("stage") as step:
            faults.point("staging")
            stage.write()
            step.output = "%d files, %d folders" % (len(plan.changes), len(plan.folders))
        faults.point("staged")
        self._stop_if_cancelled()
        for engine in self._engines:
            with self._steps.step("test") as step:
                self._test(engine, plan, step)
        faults.point("tested")
        self._stop_if_cancelled()

    def _require_ports(self) -> None:
        """Raise Failed if another program uses a port of the sites. Called before the switch.

        The servers' own tests do not detect this, and a reload with such a port would end httpd.
        """
        found = listeners.taken(self._request.ports, [engine.pid_file for engine in self._engines])
        if found:
            raise Failed("\n".join("port %s is in use by %s" % (item["name"], item["detail"]) for item in found))

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def _test(self, engine: Engine, plan: Plan, step: Step) -> None:
        root = self._journal.shadow
        safe.discard(root)  # left by a killed agent; what cannot be removed is left for the next test
        try:
            done, how = self._tested(engine, plan, root)
        finally:
            safe.discard(root)
        if done is None:
            step.status = "skipped"
            step.output = "Paddock can test %s on this host only %s" % (engine.name, IN_PLACE)
            self._untested.append((engine, engine.test() if engine.starts_with_errors else None))
            return
        if done.exit_code and engine.starts_with_errors:
            done = engine.new_errors(done, engine.test() if plan.changes else done)
        _judge(step, done, how)

    def _tested(self, engine: Engine, plan: Plan, root: str) -> tuple[commands.Done | None, str]:
        """Test the staged configuration with the server's own test. Return (result, phrase about the place of the test,
        such as "in a private mount namespace"). The result is None if this host allows a test only after the switch.
        """
        if not plan.changes:
            return engine.test(), "as it stands"
        if namespace.is_supported():
            binds = shadow.mounts(root, plan.changes)
            done = namespace.within(binds, lambda prepare: engine.test(prepare=prepare))
            return done, "in a private mount namespace"
        if not engine.relocatable or faults.is_missing("copies"):
            return None, ""
        try:
            folders = {os.path.dirname(os.path.realpath(engine.main_config)), os.path.realpath(engine.config_root)}
            copy = shadow.Copy(root, folders, plan.changes)
        except shadow.TooLarge:
            return None, ""
        done = engine.test(copy.moved(os.path.realpath(engine.main_config)), copy.moved(engine.prefix))
        done.output = copy.real(done.output)
        return done, "on a copy of the configuration"

    def _tested_only(self) -> dict[str, Any]:
        clean = Undo(self._journal, self._begun, self._steps).run(switched=False)
        result = self._steps.result("failed" if clean else "tested", clean)
        self._journal.end(result)
        self._journal.close()
        return result

    def _switch(self, stage: Stage) -> None:
        self._switched = True
        with self._steps.step("switch"):
            stage.switch()
        faults.point("switched")
        for engine, before in self._untested:
            with self._steps.step("test") as step:
                done = engine.test()
                _judge(step, done if before is None else engine.new_errors(done, before), IN_PLACE)

    def _go_live(self, stage: Stage) -> None:
        """Reload each running server once, even if many sites changed; start each stopped server. A server that cannot
        run without a port is stopped if its configuration opens none.

        Meanwhile the switched files are synced to disk. A rollback is possible without this sync, but the outcome must
        not be recorded before the sync.
        """
        self._journal.append("mark", {"name": "reloading"})
        faults.point("reloading")
        synced = False
        for engine in self._engines:
            pid = engine.pid()
            if not engine.listens():
                if pid:
                    with self._steps.step("stop") as step:
                        step.argv = engine.stop()
                        step.output = "the web server has no site, and cannot run without a port"
            elif pid:
                with self._steps.step("reload") as step:
                    before, step.argv = engine.reload(pid)
                    faults.point("reloaded")
                    if not synced:
                        stage.sync()
                        synced = True
                    engine.wait_live(before)
            else:
                with self._steps.step("start") as step:
                    done = engine.start()
                    step.argv, step.output = done.argv, done.output
        if not synced:
            stage.sync()
        faults.point("live")

    def _verify(self) -> None:
        with self._steps.step("probe") as step:
            rows = checking.after(self._begun["answers"])
            self._checks = checking.told(rows)
            wrong = checking.problems(rows, anyway=self._request.anyway)
            if wrong:
                raise Failed("\n".join(wrong))
            others = sum(row["kind"] == "other" for row in rows)
            step.output = _answered([row for row in rows if row["kind"] != "other"], others)
        faults.point("probed")

    def _commit(self) -> dict[str, Any]:
        result = dict(self._steps.result("applied"), checks=self._checks)
        self._journal.end(result)
        faults.point("committed")
        self._tidy(self._begun["entries"])
        return result

    def _tidy(self, entries: list[dict[str, Any]]) -> None:
        """Delete hidden files and close the journal after the transaction.

        An OSError is ignored: the outcome is on disk, the response must report it, and the next transaction cleans up.
        """
        try:
            clean_all(entries)
            self._journal.close()
        except OSError:
            return

    def _undo(self, error: str) -> dict[str, Any]:
        problem = Undo(self._journal, self._begun, self._steps).run(self._switched)
        if problem:
            error = "%s\n\nPaddock could not restore the previous state:\n%s" % (error, problem)
        result = dict(self._steps.result("failed" if problem else "rolled_back", error), checks=self._checks)
        self._journal.end(result)
        self._journal.forget_old()
        self._tidy([])
        return result


def _judge(step: Step, done: commands.Done, how: str) -> None:
    step.argv, step.exit_code, step.output = done.argv, done.exit_code, done.output
    if done.exit_code != 0:
        raise Failed(
            done.output
            or "the test of the configuration ended with exit code %d and printed no message" % done.exit_code
        )
    step.output = "tested %s\n%s" % (how, done.output) if done.output else "tested %s" % how


def _answered(rows: list[dict[str, Any]], others: int) -> str:
    """Describe the responses of the sites in `rows`, one per line, those with problems or changes first. `others` is
    the number of other sites' addresses that respond as before.
    """
    trouble = checking.worst(rows)
    lines = [checking.sentence(row) for row in [*trouble, *(row for row in rows if row not in trouble)]]
    more = len(lines) - MAX_ANSWERS_TOLD
    lines = lines[:MAX_ANSWERS_TOLD] + ["%d more sites respond" % more] * (more > 0)
    return "\n".join(lines + ["%d of the web server's other addresses respond as before" % others] * (others > 0))


def _summary(plan: Plan) -> str:
    actions = [change.wanted.action for change in plan.changes] + ["directory"] * len(plan.folders)
    counts = ["%s %d" % (action, actions.count(action)) for action in ACTIONS if action in actions]
    return ", ".join(counts) or "nothing to change"
