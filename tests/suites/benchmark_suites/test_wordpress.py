"""WordPress with its own database as the application of a suite: set up, browsed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.urls import reverse

from panel.accounts.models import User
from panel.benchmarks.models import Round, SuiteStatus
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import Case
from panel.benchmarks.suites.services import NotPrepared, suite_start
from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.hosts.models import Host, HostJob, HostJobKind
from panel.remote import pool
from tests.suites.benchmark_suites.suite_runner import add_web_servers, carried_out
from tests.suites.benchmark_suites.test_suites import result_page
from tests.support.cast import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
SLUG = "php-application-2020"


@pytest.fixture
def servers(host: Host, settings: LazySettings, server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    settings.LOCAL_HOST_ROOT = server_root / "host"
    monkeypatch.setenv("TMPDIR", str(server_root))
    add_web_servers(host)
    yield host
    pool.close()


def prepared(host: Host) -> Host:
    """As a check of the host leaves it that found WordPress."""
    Host.objects.filter(pk=host.pk).update(facts={"applications": {"wordpress": "6.1"}})
    host.refresh_from_db()
    return host


def databases() -> set[str]:
    """The MariaDB servers that run on this machine, by their command lines."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith((b"mariadbd", b"mysqld")):
            found.add(b" ".join(words).decode())
    return found


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case that browses, as the only one, once and for two seconds: nobody looks at its figures. As it is offered,
    its rounds keep the whole machine busy for more than a minute."""
    suite = SUITES[SLUG]
    (case,) = (replace(case, rounds=1) for case in suite.short if case.slug == "app-php-only")
    applications = [replace(item, short_warmup_s=0, short_duration_s=2) for item in suite.applications]
    monkeypatch.setitem(SUITES, SLUG, replace(suite, short=(case,), applications=tuple(applications)))
    return case


def test_wordpress_is_browsed_and_removed_afterwards(
    operator: User, servers: Host, server_root: Path, brief: Case
) -> None:
    assert brief.browses
    choice = Choice(cases=(brief.slug,), application="wordpress", paths=("/", "/?p=101", "/?page_id=201", "/?s=river"))
    setups = ["nginx-fpm", "gallop-fpm"]
    row = suite_start(actor=operator, suite=SLUG, preset="short", host=prepared(servers), setups=setups, choice=choice)
    assert row.title == "PHP application, WordPress, 4 custom paths, a part, on here"
    (run,) = carried_out(row)
    assert (run.error, row.status) == ("", SuiteStatus.FINISHED), "both servers answered all four pages alike"
    counted = Round.objects.filter(target__run=run)
    assert {entry.metrics["failed"] + entry.metrics["non2xx"] for entry in counted} == {0}
    assert sum(entry.metrics["cpu_s"]["application"] for entry in counted) > 0
    assert max(entry.metrics["bytes"] for entry in counted) > 10_000, "pages of WordPress, not of the shop"
    assert "WordPress, 4 custom paths" in result_page(signed_in(operator), row)
    pool.close()
    assert not [words for words in databases() if str(server_root) in words]
    assert not list(server_root.glob("*paddock-testbed-*")), "nothing of the test bed is left"


def test_wordpress_suite_on_unprepared_host_is_rejected_with_remedy(operator: User, admin: User, servers: Host) -> None:
    choice = Choice(application="wordpress")
    with pytest.raises(NotPrepared, match="here is not prepared for WordPress"):
        suite_start(actor=operator, suite=SLUG, preset="short", host=servers, choice=choice)
    answer = signed_in(admin).post(
        reverse("benchmarks:suite-start", args=[SLUG]),
        {"host": servers.name, "preset": "short", "application": "wordpress"},
    )
    assert (answer.status_code, answer["Location"]) == (302, f"/hosts/{servers.name}/prepare/wordpress/")


@pytest.mark.parametrize(
    ("suite", "choice", "words"),
    [
        (SLUG, Choice(application="joomla"), "no application “joomla”. Known applications: shop, wordpress"),
        ("small-static-files", Choice(application="wordpress"), "The cases of this suite request files"),
        ("small-static-files", Choice(paths=("/",)), "These cases use no application"),
        (SLUG, Choice(paths=("//a.example/",)), "two slashes at the start"),
        (SLUG, Choice(paths=("/a b\n",)), "percent-encode all characters"),
    ],
)
def test_invalid_wordpress_selection_is_rejected(
    operator: User, servers: Host, suite: str, choice: Choice, words: str
) -> None:
    with pytest.raises(ApplicationError, match=words):
        suite_start(actor=operator, suite=suite, preset="short", host=prepared(servers), choice=choice)


def plan_of(host: Host, packages: list[dict[str, str]], removed: list[str]) -> HostJob:
    """A plan that was made, as an agent tells it."""
    result = {"packages": packages, "removed": removed, "bytes": 7_900_000, "command": ["apt-get", "web_server"]}
    return HostJob.objects.create(
        host=host,
        kind=HostJobKind.PREPARE,
        params={"application": "wordpress"},
        status=JobStatus.SUCCEEDED,
        result=result,
    )


WORDPRESS = [{"name": "wordpress", "version": "6.1.9", "was": ""}]


def test_administrator_installs_exactly_the_shown_package_plan(admin: User, host: Host) -> None:
    client, url = signed_in(admin), f"/hosts/{host.name}/prepare/wordpress/"
    assert "Check for missing packages" in client.get(url).content.decode()
    assert client.post(url).status_code == 302
    HostJob.objects.all().delete()
    plan = plan_of(host, WORDPRESS, [])
    page = client.get(url).content.decode()
    assert "Install this package on here" in page and "6.1.9" in page and "7.5 MiB to download" in page
    client.post(url, {"plan": str(plan.uuid)})
    asked = HostJob.objects.exclude(pk=plan.pk).get()
    assert asked.params == {"application": "wordpress", "plan": str(plan.uuid)}


def test_package_plan_with_removals_cannot_be_installed(admin: User, operator: User, host: Host) -> None:
    client, url = signed_in(admin), f"/hosts/{host.name}/prepare/wordpress/"
    plan = plan_of(host, WORDPRESS, ["postfix"])
    page = client.get(url).content.decode()
    assert "The distribution would remove these packages: postfix" in page and "Install this package" not in page
    assert (
        "The installation would remove these packages: postfix"
        in client.post(url, {"plan": str(plan.uuid)}, follow=True).content.decode()
    )
    api = client.post(
        f"/api/v1/hosts/{host.name}/prepare/",
        {"application": "wordpress", "plan": str(plan.uuid)},
        content_type="application/json",
    )
    assert api.status_code == 422
    assert HostJob.objects.count() == 1
    assert signed_in(operator).post(url).status_code == 403
    assert HostJob.objects.count() == 1
