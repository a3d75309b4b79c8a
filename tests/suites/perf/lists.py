"""List pages with 1,000 hosts, 20,000 sites, 100,000 locations, 200,000 deployments, and a million audit entries.

Each page is requested on PostgreSQL by an administrator, by an operator whose team has half of the sites, and by an
operator and a viewer of a team with 20 of them. The same pages are requested with a tenth of everything: the number of
queries must not grow (that is asserted, the times are only printed). PADDOCK_PERF_LISTS names a folder that keeps the
filled databases for the next call; PADDOCK_PERF_PAGES chooses the pages that contain one of these words.
"""

from __future__ import annotations

import os
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.postgres import Postgres

HOSTS = 100  # of the small database, each with 20 sites; the large one has ten times as many
# What is searched for is found in both sizes: an empty page asks less.
PAGES = (
    "/",
    "/hosts/",
    "/hosts/?page=999",
    "/hosts/?q=host-00",
    "/hosts/?tag=zone-1",
    "/hosts/?ordering=-sites",
    "/hosts/?ordering=-seen",
    "/sites/",
    "/sites/?page=999",
    "/sites/?q=site-0012",
    "/sites/?q=e",
    "/sites/?tag=app-3",
    "/sites/?tag=zone-1",
    "/sites/?status=live",
    "/sites/?status=failing",
    "/sites/?status=pending",
    "/sites/?host=host-0007",
    "/sites/?ordering=-updated",
    "/sites/?ordering=server",
    "/sites/?ordering=-server&page=999",
    "/sites/+certificates/",
    "/deployments/",
    "/deployments/?page=1000",
    "/deployments/?q=site-0012",
    "/deployments/?q=host",
    "/deployments/?status=succeeded",
    "/deployments/?status=failed",
    "/deployments/?host=host-0007",
    "/deployments/drift",
    "/audit/",
    "/audit/?page=1000",
    "/audit/?q=site-0012",
    "/audit/?q=nothing-has-this",
    "/audit/?action=deployment.plan",
    "/audit/?actor=operator",
    "/benchmarks/",
    "/rollouts/",
    "/placements/",
    "/certificates/calendar",
    "/search/?q=site-0012",
    "/search/?q=e.",
    "/search/?q=app-1",
    "/search/?q=nothing-has-this",
    "/api/v1/attention/",
    "/api/v1/hosts/?limit=50",
    "/api/v1/web-servers/?limit=50",
    "/api/v1/sites/?limit=50",
    "/api/v1/sites/?limit=50&ordering=-updated_at",
    "/api/v1/sites/?limit=50&name__icontains=site-0012",
    "/api/v1/sites/?limit=50&tags__has=app-3",
    "/api/v1/sites/?limit=50&blocks__names__name__icontains=site-0012",
    "/api/v1/blocks/?limit=50",
    "/api/v1/locations/?limit=50",
    "/api/v1/certificates/?limit=50",
    "/api/v1/revisions/?limit=50",
    "/api/v1/deployments/?limit=50",
    "/api/v1/deployments/?limit=50&status=succeeded",
    "/api/v1/drifts/?limit=50",
    "/api/v1/audit/?limit=50",
    "/api/v1/search/?q=site-0012",
)
# The same lists from the place at which the twentieth page of 500 ends.
DEEP = ("/api/v1/sites/", "/api/v1/locations/", "/api/v1/deployments/", "/api/v1/audit/")
ROUNDS = int(os.environ.get("PADDOCK_PERF_ROUNDS", "20"))
AIM_MS = 100.0
OPTIONS = {"shared_buffers": "512MB", "random_page_cost": "1.1"}  # as docs/guide/production.md says


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one page: the median, the 95th percentile, and medians of the CPU time of panel and database."""

    median: float
    high: float
    panel: float
    database: float
    queries: int

    def __str__(self) -> str:
        return f"{self.median:>7.0f}{self.high:>5.0f}{self.panel:>5.0f}{self.database:>5.0f}{self.queries:>4}"


class Queries:
    """Counts the queries of a request."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.number += 1
        return execute(sql, params, many, context)


def _database_cpu(data: Path) -> float:
    """CPU seconds of the processes of the PostgreSQL server with this data folder (schedstat, proc(5))."""
    master = (data / "postmaster.pid").read_text().split()[0]
    pids = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    found = 0
    for pid in pids:
        with suppress(OSError):  # a process that has ended
            found += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return found / 1e9


def main(folder: Path) -> None:
    folder = Path(os.environ.get("PADDOCK_PERF_LISTS", folder))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with Postgres(folder / "postgres", options=OPTIONS) as postgres:
        os.environ["PADDOCK_DATABASE_URL"] = postgres.url
        os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
        import django

        django.setup()
        from panel.core.garbage import collect_only_new

        collect_only_new()  # as panel/asgi.py does in the web process
        try:
            _compare(postgres)
        finally:
            _leave()


def _compare(postgres: Postgres) -> None:
    wanted = os.environ.get("PADDOCK_PERF_PAGES", "/").split()
    pages = [page for page in PAGES if any(word in page for word in wanted)]
    _open(postgres, "small")
    clients = _clients()
    counted = {page: _costs(postgres, clients, page, rounds=1) for page in pages}
    _open(postgres, "large")
    clients = _clients()
    print(f"ms: median, p95, CPU of the panel, CPU of PostgreSQL; number of queries; * = p95 above {AIM_MS:.0f} ms")
    print(f"{'page':<50}" + "".join(f"{name:^28}" for name in clients))
    for page in pages:
        found = _costs(postgres, clients, page, rounds=ROUNDS)
        _print(page, found)
        for name, cost in found.items():
            grown = cost.queries > counted[page][name].queries
            assert not grown, f"{page} asks more questions of a larger database ({name})"
    for page in DEEP if pages == list(PAGES) else ():
        found = {
            name: _measure(postgres.data, client, _deep(client, page), rounds=ROUNDS)
            for name, client in clients.items()
        }
        _print(f"{page}, after many pages", found)


def _costs(postgres: Postgres, clients: dict[str, Any], page: str, *, rounds: int) -> dict[str, Cost]:
    return {name: _measure(postgres.data, client, page, rounds=rounds) for name, client in clients.items()}


def _print(page: str, found: dict[str, Cost]) -> None:
    cells = (f"{cost}{'*' if cost.high > AIM_MS else ' '} " for cost in found.values())
    print(f"{page:<50}" + "".join(cells), flush=True)


def _open(postgres: Postgres, name: str) -> None:
    """Use the database `name`. The small one is filled if it is new; the large one is made of it."""
    from django.core.management import call_command
    from django.db import connection

    from tests.suites.perf import lists_data

    _leave()
    connection.settings_dict["NAME"] = name
    began = time.monotonic()
    is_new = postgres.query(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") != "1"
    if is_new:
        postgres.query(f"CREATE DATABASE {name} TEMPLATE {'template1' if name == 'small' else 'small'}")
    call_command("migrate", verbosity=0)
    if is_new and name == "small":
        lists_data.users()
        lists_data.fill(range(HOSTS), sites_per_host=20)
        lists_data.vary()
    elif is_new:
        lists_data.multiply(10)
    if is_new:
        print(f"filled the {name} database in {time.monotonic() - began:.0f} s", flush=True)
    lists_data.observe()


def _leave() -> None:
    from django.db import connection

    connection.close()
    connection.close_pool()


def _clients() -> dict[str, Any]:
    """One signed-in client for each kind of user."""
    from django.conf import settings
    from django.test import Client

    from tests.suites.perf import lists_data

    settings.ALLOWED_HOSTS = ["testserver"]
    clients = {}
    for name, user in lists_data.users().items():
        clients[name] = Client()
        clients[name].force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return clients


def _measure(data: Path, client: Any, page: str, *, rounds: int) -> Cost:
    from django.db import connection

    client.get(page)  # the first request of a process reads templates
    rows = []
    for _ in range(rounds):
        queries = Queries()
        with connection.execute_wrapper(queries):
            database, panel, began = _database_cpu(data), time.process_time(), time.perf_counter()
            answer = client.get(page)
            wall = time.perf_counter() - began
            rows.append((wall, time.process_time() - panel, _database_cpu(data) - database))
        assert answer.status_code == 200, f"{page} answers {answer.status_code}"
    assert queries.number, f"no query of {page} was seen"
    times, *cpus = ([value * 1000 for value in column] for column in zip(*rows, strict=True))
    high = sorted(times)[-1 - len(times) // 20]
    return Cost(statistics.median(times), high, *map(statistics.median, cpus), queries.number)


def _deep(client: Any, page: str) -> str:
    """The address of 50 rows after 20 pages of 500, or after as many as there are."""
    address = f"{page}?limit=500"
    for _ in range(20):
        following = client.get(address).json()["next"]
        if following is None:
            break
        address = following
    return address.replace("limit=500", "limit=50")
