"""Documented differences of Apache are no wider than they say: cases that the generator found."""

from __future__ import annotations

import pytest

from tests.suites.conformance.explained import Case, explanation
from tests.suites.conformance.request_differences import Met
from tests.suites.conformance.wire import Answer, Request

DROPPED = "Apache does not pass the visitor's Cache-Control header to the application"
SAID = "GET /v2/ host={} ip=127.0.0.1 proto=http own=a"


def redirect(target: str) -> Answer:
    return Answer(302, {"location": target}, b"")


def kept(host: str) -> Answer:
    return Answer(200, {}, SAID.format(host).encode())


def row(nginx: Answer, other: Answer, *shown: str) -> str:
    return explanation("apache-event", Case(Request("/"), nginx, other, Met(shown=frozenset(shown))))


def test_apache_encodes_invalid_url_bytes_in_redirect() -> None:
    name = "characters that no URL may hold in a redirect"
    assert row(redirect("https://x.test/info.php\xff?a=1"), redirect("https://x.test/info.php%FF?a=1")) == name
    assert row(redirect('https://x.test/"'), redirect("https://x.test/%22")) == name
    assert row(redirect("https://x.test/\xff"), redirect("https://x.test/%FE")) == ""


@pytest.mark.parametrize("spelled", ["S394.TEST", "s394.test.", "S394.test."])
def test_host_spelling_does_not_split_apache_cache(spelled: str) -> None:
    assert row(kept(spelled), kept("s394.test"), DROPPED) == "answers that were dropped"
    assert row(kept(spelled), kept("other.test"), DROPPED) == ""
    assert row(kept(spelled), kept("s394.test")) == ""  # of a site that keeps nothing
