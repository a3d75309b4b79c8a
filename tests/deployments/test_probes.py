"""The requests that check a site before and after a deployment."""

from __future__ import annotations

import pytest

from panel.deployments.execution import probes
from panel.rendering import spec


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
    (probe,) = probes.probes_of(spec.SiteSpec("shop", (block,)), "/health")
    assert (probe.address, probe.host) == expected
    assert probe.path == "/health"


def test_probes_skip_regex_server_names() -> None:
    block = spec.ServerBlock(listens=(spec.Listen(80),), names=("~^x",))
    assert probes.probes_of(spec.SiteSpec("shop", (block,)), "/") == []
