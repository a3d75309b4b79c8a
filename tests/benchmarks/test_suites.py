"""Suites on real servers: short presets of short presets, so that every part of the way is gone once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from panel.accounts.models import User
from panel.benchmarks.models import Round, SuiteRun, SuiteStatus
from panel.benchmarks.suite_services import suite_start
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import Suite
from panel.hosts.models import Host
from panel.remote import pool
from tests.benchmarks.suites import add_installs, carried_out

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def servers(host: Host, settings: LazySettings, server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    settings.LOCAL_HOST_ROOT = server_root / "host"
    monkeypatch.setenv("TMPDIR", str(server_root))  # of the agent: where stands are
    add_installs(host)
    yield host
    pool.close()


def only(monkeypatch: pytest.MonkeyPatch, slug: str, *cases: str, **values: object) -> Suite:
    """The suite with fewer and smaller cases."""
    suite = SUITES[slug]
    short = tuple(replace(case, rounds=1, **values) for case in suite.short if case.slug in cases)
    changed = replace(suite, short=short)
    monkeypatch.setitem(SUITES, slug, changed)
    return changed


def started(actor: User, suite: str, host: Host, *setups: str) -> SuiteRun:
    return suite_start(actor=actor, suite=suite, preset="short", host=host, setups=setups)


def test_static_files_on_every_server_and_processing_module(
    operator: User, servers: Host, server_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "small-static-files", "keepalive", warmup_s=0)
    row = started(operator, "small-static-files", servers)
    (run,) = carried_out(row)
    assert run.error == ""
    assert row.status == SuiteStatus.FINISHED
    labels = [target["label"] for target in run.summary["targets"]]
    assert labels == ["Apache, prefork", "Apache, worker", "Apache, event", "nginx", "gallop"]
    for counted in Round.objects.filter(target__run=run):
        assert counted.metrics["requests"] == 12_000
        assert counted.metrics["non2xx"] == 0
        assert counted.metrics["failed"] <= 120, counted.output
        assert counted.metrics["cpu_s"]["server"] > 0, counted.target.label
    assert not list(server_root.glob("*paddock-stand-*")), "nothing of the stand is left"


def test_php_is_watched_apart_and_its_full_pool_is_named(
    operator: User, servers: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "php-application-2020", "app-browsing", "app-php-only", warmup_s=0)
    row = started(operator, "php-application-2020", servers, "nginx-fpm")
    browsing, pages = carried_out(row)
    assert (browsing.error, pages.error) == ("", "")
    (with_images,) = Round.objects.filter(target__run=browsing)
    (alone,) = Round.objects.filter(target__run=pages)
    for counted in (with_images, alone):
        assert counted.metrics["cpu_s"]["application"] > 0
        assert counted.metrics["failed"] == counted.metrics["non2xx"] == 0, counted.output
    assert with_images.metrics["bytes"] / with_images.metrics["requests"] > 0
    assert with_images.metrics["bytes"] > 2 * alone.metrics["bytes"], "the parser fetched what the pages link to"
