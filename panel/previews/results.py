"""Differences between the responses of two versions of a site, and their JSON format. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from panel.previews.asking import Listener, Question

MOST_LISTED = 200
Kind = Literal["status", "redirect", "header", "content", "location"]
_PORT = re.compile(r":(\d{1,5})(?=[/?#\"',; ]|$)")
# Not compared as headers: validators of the content, because the content is compared, and the target of a redirect.
_LEFT_OUT = frozenset({"location", "etag", "last-modified"})
Response = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One change of a response. `name` is the name of a changed header; `before` and `after` are texts for people, ""
    if absent.
    """

    kind: Kind
    before: str
    after: str
    name: str = ""


@dataclass(frozen=True)
class Difference:
    """A request that gets different responses from the live version and the draft, with the changes of the response."""

    method: str
    url: str
    changes: list[Change]


@dataclass(frozen=True)
class SiteResult:
    """Result of a preview for one site. `logged` is the number of requests from its access log, `unlisted` the number
    of differences beyond MOST_LISTED. `error` is the reason why no comparison was made; `notes` tell why logs were
    left out.
    """

    site: str
    asked: int = 0
    logged: int = 0
    differences: list[Difference] = field(default_factory=list)
    unlisted: int = 0
    error: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of requests that get different responses from the two versions."""
        return len(self.differences) + self.unlisted


def to_json(results: Sequence[SiteResult]) -> list[dict[str, object]]:
    return [asdict(result) for result in results]


def from_json(data: Sequence[Mapping[str, Any]]) -> list[SiteResult]:
    return [
        SiteResult(
            **{
                **row,
                "differences": [
                    Difference(item["method"], item["url"], [Change(**change) for change in item["changes"]])
                    for item in row["differences"]
                ],
            }
        )
        for row in data
    ]


@dataclass(frozen=True)
class Heard:
    """Response of one version of a site to a request.
    `again` is the response to a repetition of the request: parts that differ from `response` change without a
    deployment, too. `location` is the location that handles the request. `ports`: private port of each socket.
    """

    response: Response
    location: str
    ports: Mapping[Listener, int]
    again: Response | None = None


def difference(question: Question, before: Heard, after: Heard) -> Difference | None:
    """Compare the response of the live version (`before`) with that of the draft (`after`).

    Return a Difference with all changes that a visitor would notice; None if there are no such changes.
    """
    one, two = _seen(before.response, before.ports), _seen(after.response, after.ports)
    again = _seen(before.again, before.ports) if before.again is not None else one
    changes: list[Change] = []
    if one.status != two.status:
        changes.append(Change("status", one.status, two.status))
    if one.target != two.target and one.target == again.target:
        changes.append(Change("redirect", one.target, two.target))
    changes += [
        Change("header", one.headers.get(name, ""), two.headers.get(name, ""), name)
        for name in sorted({*one.headers, *two.headers})
        if one.headers.get(name) == again.headers.get(name) != two.headers.get(name)
    ]
    if one.status == two.status and one.content == again.content != two.content:
        changes.append(Change("content", one.content_words, two.content_words))
    if before.location != after.location:
        changes.append(Change("location", before.location, after.location))
    url = question.visitor.url(question.path)
    return Difference(question.method, url, changes) if changes else None


@dataclass(frozen=True)
class _Seen:
    """A response as visitors of the site would see it, with the site's own ports."""

    status: str
    target: str
    headers: dict[str, str]
    content: str
    content_words: str


def _seen(response: Response, ports: Mapping[Listener, int]) -> _Seen:
    if "error" in response:
        return _Seen(str(response["error"]), "", {}, "", "")
    headers = {name: _public(value, ports) for name, value in response["headers"].items()}
    shown = {name: value for name, value in headers.items() if name not in _LEFT_OUT}
    size = f"{response['bytes']:,} bytes"
    return _Seen(str(response["status"]), headers.get("location", ""), shown, response["sha256"], size)


def _public(value: str, ports: Mapping[Listener, int]) -> str:
    """Replace private ports in a text by the site's own ports, or remove them if they are the scheme's default."""
    own = {private: listener for listener, private in ports.items()}

    def shown(found: re.Match[str]) -> str:
        listener = own.get(int(found[1]))
        if listener is None:
            return found[0]
        return "" if listener.port == (443 if listener.tls else 80) else f":{listener.port}"

    return _PORT.sub(shown, value)
