"""The panel in a process of its own, so that its CPU and memory can be told from everybody else's.

`python -m tests.suites.perf.controller FOLDER` reads one request a line (JSON) and answers each with one line:

    {"op": "add", "hosts": [...]}                        hosts, servers and one site on each, as rows
    {"op": "push", "mark": "v1", "count": 10, "cold": false}
        change the first `count` sites, plan them, confirm, and be the worker that carries it out. The answer has
        seconds: wall, cpu (this process), machine_cpu (the hosts' too), the parts edit (not part of wall), plan,
        confirm, run, and agent (waiting for the hosts, summed over them); peak_bytes, file_bytes, queries.
    {"op": "rollout", "mark": "v2", "soak_s": 2}
        change all sites and add the address /fail, whose application is down; roll out in waves of 1 host, 10 percent,
        and the rest, and visit /fail on the hosts of the second wave once they are observed. The answer has the
        rollout's status, error, and the hosts of each wave, and times in seconds since 1970: failed_at, ended_at;
        peak_bytes.
    {"op": "waves", "mark": "v3", "count": 10, "soak_s": 0, "aside": true}
        change the first `count` sites and roll them out in the same waves. The answer has seconds: wall, cpu,
        machine_cpu as of a push; peak_bytes; the sizes of the waves; and, with `aside`, of each deployment of the last
        site that happened meanwhile: the seconds from its edit to its end (verified), as does `alone` of those before.

`cold`: without connections, as after a restart; else with the connections and agents of the push before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.suites.perf.account import cpu_seconds

# What makes a site file of the same size as the one that the peers write.
HEADERS = [{"name": f"X-Header-{number:02}", "value": "a" * 60} for number in range(10)]


class AgentClock:
    """Seconds that were spent waiting for agents; what the panel does with their events in between is its own."""

    def __init__(self) -> None:
        from panel.remote.client import AgentClient

        self.seconds = 0.0
        self._lock = threading.Lock()
        original = AgentClient.call

        def call(client: AgentClient, op: str, args: Any = None, on_event: Any = None, timeout: Any = None) -> Any:
            own = 0.0

            def heard(data: dict[str, Any]) -> None:
                nonlocal own
                since = time.perf_counter()
                on_event(data)
                own += time.perf_counter() - since

            began = time.perf_counter()
            try:
                return original(client, op, args, heard if on_event else None, timeout)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - began - own

        AgentClient.call = call  # type: ignore[method-assign]


def peak_bytes() -> int:
    """The most memory that this process ever had resident (proc(5), VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


class Controller:
    def __init__(self) -> None:
        from panel.accounts.models import Role, Team, User

        self.admin = User.objects.create_user("admin", "correct horse battery staple", role=Role.ADMIN)
        self.team = Team.objects.create(name="Everyone", slug="everyone")
        # Ids only: a panel holds no site between two requests.
        self.locations: list[int] = []
        self.clock = AgentClock()

    def add(self, hosts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One row of each kind for every host; nothing is sent."""
        from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
        from panel.websites import services

        for given in hosts:
            values = {name: given[name] for name in ("name", "port", "username", "private_key", "host_key")}
            host = Host.objects.create(
                connection="ssh",
                address="127.0.0.1",
                status=HostStatus.READY,
                site_roots=[given["site_root"]],
                **values,
            )
            web_server = WebServer.objects.create(
                host=host, engine=Engine.NGINX, layout=Layout.CONF_D, version="1.22.1", paths=given["paths"]
            )
            site = services.site_create(
                actor=self.admin,
                team=self.team,
                name=f"panel-{host.name}",
                domains=["panel.example"],
                web_server=web_server,
                port=given["http_port"],
                address="127.0.0.1",
                root=given["site_root"],
            )
            values = {"match": "=", "pattern": "/version", "handler": "return", "return_code": 200}
            location = services.location_create(
                actor=self.admin, block=site.blocks.get(), return_value="none", headers=HEADERS, **values
            )
            self.locations.append(location.pk)
        return {"sites": len(self.locations)}

    def push(self, mark: str, count: int, cold: bool) -> dict[str, Any]:
        from panel.deployments import tasks
        from panel.deployments.models import Deployment, DeploymentStatus
        from panel.deployments.planning import services
        from panel.remote import pool

        began = time.perf_counter()
        chosen = self.locations[:count]
        self._edit(chosen, mark)
        edit = time.perf_counter() - began
        if cold:
            pool.close()
            time.sleep(0.5)  # the agents of the push before end
        self.clock.seconds = 0.0
        cpu, machine, began = time.process_time(), cpu_seconds(), time.perf_counter()
        plans = services.deployment_plan(actor=self.admin, sites=_sites_of(chosen))
        planned = time.perf_counter()
        batch = services.deployment_confirm(actor=self.admin, deployment=plans[0])
        confirmed = time.perf_counter()
        self._work(tasks, [str(row.uuid) for row in batch])
        ended = time.perf_counter()
        measured = {
            "wall": ended - began,
            "cpu": time.process_time() - cpu,
            "machine_cpu": cpu_seconds() - machine,
            "edit": edit,
            "plan": planned - began,
            "confirm": confirmed - planned,
            "run": ended - confirmed,
            "agent": self.clock.seconds,
            "peak_bytes": peak_bytes(),
        }
        for row in Deployment.objects.filter(batch=batch[0].batch):
            assert row.status == DeploymentStatus.SUCCEEDED, f"{row}: {row.status} {row.error}"
        measured["file_bytes"] = plans[0].items.get().revision.files and _size(plans[0])
        return measured

    def rollout(self, mark: str, soak_s: int) -> dict[str, Any]:
        from panel.deployments import tasks
        from panel.deployments.models import Deployment
        from panel.deployments.planning import services
        from panel.rollouts.advancing import rollout_advance
        from panel.rollouts.services import Rules, rollout_start

        self._edit(self.locations, mark)
        for location in self.locations:
            self._add_dead_application(_location(location).block)
        plans = services.deployment_plan(actor=self.admin, sites=_sites_of(self.locations))
        rollout = rollout_start(actor=self.admin, deployment=plans[0], rules=Rules(soak_s=soak_s))
        failed_at, is_visited = 0.0, False
        while not rollout.is_finished:
            wait_s = rollout_advance(rollout.uuid) or 0
            queued = Deployment.objects.filter(status="queued").order_by("confirmed_at", "pk")
            self._work(tasks, [str(uuid) for uuid in queued.values_list("uuid", flat=True)])
            rollout.refresh_from_db()
            if rollout.is_undoing and not failed_at:
                failed_at = time.time()
            second = rollout.waves.get(position=2)
            if second.status == "observing" and not is_visited:
                is_visited = True
                self._visit(second)
            time.sleep(min(wait_s, 1.0))
        waves = [list(wave.parts.values_list("deployment__host__name", flat=True)) for wave in rollout.waves.all()]
        found = {"status": rollout.status, "error": rollout.error, "waves": waves, "peak_bytes": peak_bytes()}
        return found | {"failed_at": failed_at, "ended_at": time.time()}

    def waves(self, mark: str, count: int, soak_s: int, aside: bool) -> dict[str, Any]:
        from panel.deployments.planning import services
        from panel.rollouts.services import Rules, rollout_start

        beside = Beside(self, self.locations[-1]) if aside else None
        alone = [beside.deploy() for _ in range(5)] if beside else []
        self._edit(self.locations[:count], mark)
        with beside or nullcontext():
            cpu, machine, began = time.process_time(), cpu_seconds(), time.perf_counter()
            plans = services.deployment_plan(actor=self.admin, sites=_sites_of(self.locations[:count]))
            rollout = rollout_start(actor=self.admin, deployment=plans[0], rules=Rules(soak_s=soak_s))
            self._carry_out(rollout)
            wall = time.perf_counter() - began
        assert rollout.status == "succeeded", f"{rollout.status}: {rollout.error}"
        return {
            "wall": wall,
            "cpu": time.process_time() - cpu,
            "machine_cpu": cpu_seconds() - machine,
            "peak_bytes": peak_bytes(),
            "waves": [wave.parts.count() for wave in rollout.waves.order_by("position")],
            "alone": alone,
            "aside": beside.seconds if beside else [],
        }

    def _carry_out(self, rollout: Any) -> None:
        from panel.deployments import tasks
        from panel.deployments.models import Deployment
        from panel.rollouts.advancing import rollout_advance

        while not rollout.is_finished:
            wait_s = rollout_advance(rollout.uuid) or 0
            queued = Deployment.objects.filter(status="queued", rollout_part__wave__rollout=rollout)
            uuids = queued.order_by("confirmed_at", "pk").values_list("uuid", flat=True)
            self._work(tasks, [str(uuid) for uuid in uuids])
            rollout.refresh_from_db()
            time.sleep(min(wait_s, 1.0))

    def _add_dead_application(self, block: Any) -> None:
        from panel.websites import services

        log = f"{block.site.web_server.paths['log_dir']}/{block.site.name}.log"
        services.block_update(actor=self.admin, block=block, access_log=log)
        servers = [{"address": "127.0.0.1:9"}]
        upstream = services.upstream_create(actor=self.admin, site=block.site, name="app", servers=servers)
        values = {"pattern": "/fail", "handler": "proxy", "upstream": upstream}
        services.location_create(actor=self.admin, block=block, **values)

    def _visit(self, wave: Any) -> None:
        """Thirty visitors of each host, in a second that its log counts."""
        from panel.deployments.models import Deployment
        from tests.support.http_client import ask

        time.sleep(1.1)
        for deployment in Deployment.objects.filter(rollout_part__wave=wave):
            for listen in deployment.items.get().site.blocks.get().listens.all():
                for _ in range(30):
                    ask(listen.port, "/fail", host="panel.example")

    def _work(self, tasks: Any, uuids: Sequence[str]) -> None:
        """As a Celery worker does: each message in a thread, whose connection to the database is closed after it."""
        from django.conf import settings
        from django.db import connection

        from panel.deployments import waking

        def work(part: Sequence[str]) -> None:
            try:
                tasks.run(*part)
            finally:
                connection.close()

        size = waking.AT_ONCE
        with ThreadPoolExecutor(settings.CELERY_WORKER_CONCURRENCY) as threads:
            list(threads.map(work, [uuids[start : start + size] for start in range(0, len(uuids), size)]))

    def _edit(self, locations: Sequence[int], mark: str) -> None:
        from panel.websites import services

        for location in locations:
            services.location_update(actor=self.admin, location=_location(location), return_value=mark)


class Beside:
    """A thread that deploys one site again and again while others are rolled out."""

    def __init__(self, controller: Controller, location: int) -> None:
        self.seconds: list[float] = []
        self._controller, self._location = controller, location
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def deploy(self) -> float:
        """Edit, plan, confirm and carry out one change; seconds until the site was verified."""
        from panel.deployments import tasks
        from panel.deployments.planning import services

        began = time.perf_counter()
        self._controller._edit([self._location], f"aside{time.monotonic_ns()}")
        plans = services.deployment_plan(actor=self._controller.admin, sites=_sites_of([self._location]))
        services.deployment_confirm(actor=self._controller.admin, deployment=plans[0])
        tasks.run(str(plans[0].uuid))
        plans[0].refresh_from_db()
        assert plans[0].status == "succeeded", f"{plans[0].status}: {plans[0].error}"
        return time.perf_counter() - began

    def _run(self) -> None:
        from django.db import connection

        try:
            while not self._done.wait(0.2):
                self.seconds.append(self.deploy())
        finally:
            connection.close()


def _location(pk: int) -> Any:
    from panel.websites.models import Location

    return Location.objects.select_related("block__site").get(pk=pk)


def _sites_of(locations: Sequence[int]) -> list[Any]:
    from panel.websites.models import Site

    return list(Site.objects.filter(blocks__locations__in=locations))


def _size(deployment: Any) -> int:
    from panel.deployments.revisions.rendered import contents

    return sum(len(text) for text in contents(file.sha256 for file in deployment.plan.files).values())


def main(folder: Path) -> None:
    os.environ["PADDOCK_HOME"] = str(folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
    # As `make run` does: what migrating needs in memory is not what a worker needs.
    # Its messages would be read as responses on standard output.
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], stdout=sys.stderr, check=True)
    # It came with the tests' browser; Celery loads it where it is installed, and a panel's worker has none.
    sys.modules["greenlet"] = None  # type: ignore[assignment]
    import django

    django.setup()
    import panel.celery  # noqa: F401 - what `.delay` sends its messages with

    controller = Controller()
    for line in sys.stdin:
        request = json.loads(line)
        operation = getattr(controller, request.pop("op"))
        print(json.dumps(operation(**request)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
