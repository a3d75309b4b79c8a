"""gallop answers as the real nginx does; the long run of this is `make differential`."""

from __future__ import annotations

from random import Random

from tests.conformance.wire import Answer
from tests.differential.__main__ import run
from tests.differential.compare import Outcome, compared, difference
from tests.differential.configs import Place, configuration
from tests.differential.explained import explained
from tests.differential.requests import Sent, requests
from tests.differential.servers import Pair

# Of these configurations Debian's nginx and the newest make the same but for what a rule names.
FIRST, CONFIGURATIONS, REQUESTS = 1, 6, 200


def test_generated_configurations_are_answered_as_nginx_answers_them() -> None:
    whole = run(FIRST, CONFIGURATIONS, REQUESTS)
    assert not whole.unexplained, "\n".join(whole.unexplained[:20])
    assert whole.compared == CONFIGURATIONS * REQUESTS
    assert len(whole.statuses) > 10, "the requests reach many kinds of answers"


def test_a_number_makes_the_same_configuration_and_requests_again() -> None:
    def made(number: int) -> tuple[str, list[Sent]]:
        chance = Random(number)
        return configuration(chance, Place(80, 82, 81, "/www"), 8), list(requests(chance, 8, 50))

    assert made(7) == made(7)
    assert made(7) != made(8)


def test_differences_of_every_kind_are_seen() -> None:
    base = Answer(200, {"content-type": "text/plain", "date": "now"}, b"body")
    others = [
        Answer(404, base.headers, base.body),
        Answer(200, {"content-type": "text/html"}, base.body),
        Answer(200, {}, base.body),
        Answer(200, {**base.headers, "x-more": "1"}, base.body),
        Answer(200, base.headers, b"boDy"),
        Answer(200, base.headers, b"body and more"),
    ]
    sent = Sent("/", data=b"GET / HTTP/1.1\r\n\r\n")
    for other in others:
        outcome: Outcome = compared([Pair(sent, base, other)])
        assert outcome.unexplained, other
    assert not difference(base, Answer(200, {"content-type": "text/plain", "date": "later"}, base.body))


def test_an_explanation_explains_its_own_difference_only() -> None:
    sent = Sent("/", data=b"GET /a%0Ab HTTP/1.1\r\n\r\n")
    pair = Pair(sent, Answer(200, {"x": "a\nb"}), Answer(200, {"x": "a b"}))
    assert explained(pair, difference) == "line feeds in a field's value go out as blanks"
    pair = Pair(sent, Answer(200, {"x": "a\nb", "y": "1"}), Answer(200, {"x": "a b", "y": "2"}))
    assert explained(pair, difference) == ""
