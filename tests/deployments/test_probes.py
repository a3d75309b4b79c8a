"""The requests that check a site before and after a deployment."""

from __future__ import annotations

import pytest

from panel.deployments.execution import probes
from panel.rendering import spec


def asked(block: spec.ServerBlock, path: str = "/", old: spec.ServerBlock | None = None) -> probes.Asked:
    before = spec.SiteSpec("shop", (old,)) if old else None
    return probes.Asked(spec.SiteSpec("shop", (block,)), probes.Health(path), before)


@pytest.mark.parametrize(
    ("names", "listen", "expected"),
    [
        (("a.example",), spec.Listen(80), ("127.0.0.1", "a.example")),
        (("*.a.example",), spec.Listen(80, address="::"), ("::1", "probe.a.example")),
        ((".a.example",), spec.Listen(80, address="192.0.2.1"), ("192.0.2.1", "a.example")),
        (("www.*",), spec.Listen(80), ("127.0.0.1", "www.invalid")),
        ((), spec.Listen(80, default_server=True), ("127.0.0.1", "localhost")),
        (("~^x",), spec.Listen(80, default_server=True), ("127.0.0.1", "localhost")),
        (("~^x", "b.example"), spec.Listen(80), ("127.0.0.1", "b.example")),
    ],
)
def test_probes_use_names_of_site(names: tuple[str, ...], listen: spec.Listen, expected: tuple[str, str]) -> None:
    block = spec.ServerBlock(listens=(listen,), names=names)
    (probe,) = probes.probes_of(asked(block, "/health"))
    assert (probe.address, probe.host) == expected
    assert probe.path == "/health"


def test_probes_skip_regex_server_names() -> None:
    block = spec.ServerBlock(listens=(spec.Listen(80),), names=("~^x",))
    assert probes.probes_of(asked(block)) == []


def block_of(*locations: spec.Location, port: int = 80, **values: object) -> spec.ServerBlock:
    return spec.ServerBlock((spec.Listen(port),), ("a.example",), locations=locations, **values)  # type: ignore[arg-type]


def test_probes_ask_each_location_once_at_an_address_that_it_handles() -> None:
    php = spec.Location("~", r"\.php$", "static")
    block = block_of(spec.Location("", "/docs/", "static"), php, spec.Location("=", "/ping", "static"))
    found = [probe.path for probe in probes.probes_of(asked(block, old=block)) if probe.kind == "location"]
    assert found == ["/docs/paddock-check", "/paddock-check.php", "/ping"]


def test_probe_of_hidden_files_asks_for_an_address_that_they_are_refused_at() -> None:
    """A path like /. leads to the folder itself, so its answer says nothing about this location."""
    block = block_of(spec.Location("~", r"/\.(?!well-known(?:/|$))", "deny"))
    (found,) = [probe for probe in probes.probes_of(asked(block)) if probe.kind == "location"]
    assert (found.path, found.intended) == ("/.paddock-check", (403,))


def test_probes_are_asked_before_where_the_live_revision_answered() -> None:
    (probe,) = probes.probes_of(asked(block_of(port=81), old=block_of(port=80)))
    assert (probe.port, probe.was, probe.fresh) == (81, ("127.0.0.1", 80), False)


def test_probes_of_a_new_name_have_nothing_before() -> None:
    other = spec.ServerBlock((spec.Listen(80),), ("b.example",))
    (probe,) = probes.probes_of(asked(block_of(), old=other))
    assert probe.fresh


def test_probes_know_which_locations_are_new() -> None:
    old, new = spec.Location("", "/old/", "static"), spec.Location("", "/new/", "static")
    found = {probe.path: probe.new for probe in probes.probes_of(asked(block_of(old, new), old=block_of(old)))}
    assert (found["/old/paddock-check"], found["/new/paddock-check"]) == (False, True)


@pytest.mark.parametrize(
    ("location", "statuses"),
    [
        (spec.Location("", "/", "deny"), (403,)),
        (spec.Location("", "/", "return", return_code=410), (410,)),
        (spec.Location("", "/", "static", access_rules=(spec.AccessRule("deny", "all"),)), (403,)),
        (spec.Location("", "/", "static", rate_limit=spec.RateLimit(1)), (429, 503)),
        (spec.Location("", "/", "static"), ()),
    ],
)
def test_probes_say_which_statuses_are_intended(location: spec.Location, statuses: tuple[int, ...]) -> None:
    probe = probes.probes_of(asked(block_of(location)))[0]
    assert probe.intended == statuses


def test_addresses_of_many_sites_take_turns_and_are_limited() -> None:
    many = [probes.Probe("127.0.0.1", 80, "a", path=f"/{n}", site="a", kind="location") for n in range(1000)]
    few = [probes.Probe("127.0.0.1", 80, "b", path="/", site="b", kind="location")]
    found = probes.limited([*many, *few])
    assert len(found) == probes.MAX_EXTRAS
    assert [probe.site for probe in found[:3]] == ["a", "b", "a"]
