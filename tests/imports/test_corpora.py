"""The counts of `make corpora`: unreadable files by line, and fragments read as virtual host content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.corpora.apache_lines import lines_of
from tests.suites.corpora.measure import measured
from tests.suites.corpora.pins import CORPORA, Corpus
from tests.support.cast import cast


def corpus(engine: str, *, inside: bool = False) -> Corpus:
    return Corpus("made", "made", "1", "0" * 64, ((engine, "**/*"),), inside=inside)


def test_corpus_files_are_read_or_rejected_with_line(tmp_path: Path) -> None:
    (tmp_path / "good.conf").write_text("server { listen 80; server_name a.example; root /srv/a; stub_status; }")
    (tmp_path / "broken.conf").write_text("server {\n  listen 80;\n")
    (tmp_path / "odd.conf").write_bytes(b"\xff\xfe\x00{")
    found = measured(corpus("nginx"), tmp_path)
    assert (found.files, found.sites, found.crashes) == (3, 1, [])
    assert [(Path(fault.file).name, fault.line) for fault in found.refused] == [("broken.conf", 2), ("odd.conf", 1)]
    assert (found.outcomes["mapped"], found.outcomes["snippet"]) == (4, 1)
    assert found.share == 80.0


def test_corpus_fragment_is_read_as_virtual_host_content(tmp_path: Path) -> None:
    (tmp_path / "fragment.conf").write_text("ServerName a.example\n")
    assert measured(corpus("apache"), tmp_path).sites == 0
    found = measured(corpus("apache", inside=True), tmp_path)
    assert found.sites == 1
    assert {name: count for name, count in found.outcomes.items() if count} == {"mapped": 1}


@pytest.mark.django_db
def test_lines_for_apache_are_counted_with_reasons_for_general_rules(tmp_path: Path) -> None:
    who = cast("")
    (tmp_path / "plain.conf").write_text(
        """server {
    listen 80;
    # comment

    server_name a.example;
    root /srv/www/a;
    rewrite ^/old/(.*)$ /new/$1 last;
}
"""
    )
    (tmp_path / "general.conf").write_text(
        """server {
    listen 80;
    server_name b.example;
    root /srv/www/b;
    rewrite ^/old/(.*)$ /new/$1 last;
    location /new/ {
        alias /srv/www/c/;
    }
}
"""
    )
    found = lines_of(corpus("nginx"), tmp_path, who)
    assert (found.sites, found.refused, found.rewriting, found.before) == (2, [], 2, 6 + 9)
    assert [line.partition(":")[0] for line in found.general] == ["general.conf"]
    assert found.reasons == {"the new path can belong to a location with another folder": 1}


def test_corpus_downloads_are_pinned() -> None:
    assert all(len(row.sha256) == 64 and row.version for row in CORPORA)
    assert len({row.sha256 for row in CORPORA}) == len(CORPORA)


def test_lines_skipped_by_condition_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(
        "<VirtualHost *:80>\nServerName a.example\n<IfDefine Never>\nServerAdmin me\n</IfDefine>\n</VirtualHost>\n"
    )
    found = measured(corpus("apache"), tmp_path)
    assert {name: count for name, count in found.outcomes.items() if count} == {"mapped": 2, "changed": 1}
