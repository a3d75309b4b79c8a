"""Forbidden addresses in every notation, and names that resolve to them on the host."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.host import addresses
from tests.agents.process import AgentError, AgentProcess

REFUSED = [
    *("169.254.169.254", "0xa9fea9fe", "0xA9FEA9FE", "2852039166", "025177524776", "0251.0376.0251.0376"),
    *("169.254.43518", "0xa9.0xfe.0xa9.0xfe", "169.16689662", "169.254.169.254.", "169.254.0.23"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "[fd00:ec2::254]"),
    *("fd00:0ec2:0:0::0254", "fd00:ec2::23", "fd20:ce::254", "fe80::1", "fe80::a9fe:a9fe%eth0", "febf::1"),
    *("::ffff:169.254.169.254", "::169.254.169.254", "::ffff:a9fe:a9fe", "::ffff:0:169.254.169.254"),
    *("64:ff9b::169.254.169.254", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::", "fd00:c1::a9fe:a9fe"),
    *("2001:0:a9fe:a9fe::1", "2001:0:102:304::5601:5601", "fd12::5efe:a9fe:a9fe", "fd12::200:5efe:a9fe:a9fe"),
    *("metadata.google.internal", "Metadata.Google.Internal.", "metadata", "instance-data.ec2.internal"),
]
ALLOWED = [
    *("127.0.0.1", "10.0.0.1", "192.168.1.1", "8.8.8.8", "169.253.255.255", "169.255.0.0", "100.100.100.201"),
    *("::1", "::", "fd00::1", "fd00:ec2::1", "2001:db8::1", "fec0::1", "::ffff:10.0.0.1", "64:ff9b::808:808"),
    *("2002:808:808::1", "app.internal", "localhost", "", "1.2.3.4.5", "a b", "0xzz", "metadata.example"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_metadata_and_link_local_addresses_are_rejected_in_every_notation(text: str) -> None:
    assert addresses.why_refused(text)


@pytest.mark.parametrize("text", ALLOWED)
def test_other_addresses_and_names_are_accepted(text: str) -> None:
    assert addresses.why_refused(text) == ""


@pytest.mark.parametrize("text", [item for item in REFUSED if not item.lower().startswith(("metadata", "instance"))])
def test_address_notations_are_those_of_the_resolver(text: str) -> None:
    """Only notations that getaddrinfo accepts are judged."""
    bare = text.strip("[]").split("%")[0]
    (place, *_) = {entry[4][0] for entry in socket.getaddrinfo(bare.rstrip("."), 80, type=socket.SOCK_STREAM)}
    assert addresses.why_refused(str(place))


def test_agent_reports_names_that_resolve_to_metadata_services(agent_file: Path, tmp_path: Path) -> None:
    """With a real resolver, in a mount namespace with its own /etc/hosts."""
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n169.254.169.254 evil.internal\nfd00:ec2::254 six.internal\n10.0.0.7 app.internal\n"
        "10.0.0.8 both.internal\n100.100.100.200 both.internal\n"
    )

    class Elsewhere(AgentProcess):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            script = f'mount --bind {hosts} /etc/hosts && exec "$@"'
            self.argv = ["unshare", "--mount", "sh", "-c", script, "sh", *self.argv]

    names = [
        "evil.internal",
        "six.internal",
        "both.internal",
        "app.internal",
        "localhost",
        "0xa9fea9fe",
        "no.such.invalid",
    ]
    with Elsewhere(agent_file, tmp_path / "state") as agent:
        refused = agent.call("resolve", {"names": names})["refused"]
    assert set(refused) == {"evil.internal", "six.internal", "both.internal", "0xa9fea9fe"}
    assert (
        refused["both.internal"] == "both.internal resolves to 100.100.100.200, the metadata service of Alibaba Cloud"
    )
    assert subprocess.run(["getent", "hosts", "evil.internal"], check=False).returncode, "only there"


@pytest.mark.parametrize("names", [None, "a", [1], ["a"] * 1001])
def test_agent_rejects_invalid_names(agent: AgentProcess, names: Any) -> None:
    with pytest.raises(AgentError, match="names is a list"):
        agent.call("resolve", {"names": names})
