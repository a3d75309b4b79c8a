"""SSH certificates on a real sshd: of hosts, for which an authority vouches, and of the panel, which an authority
signs in. The certificates of hosts are made by ssh-keygen.
"""

from __future__ import annotations

import base64
import datetime as dt
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

from panel.remote import host_certificates, ssh, user_certificates
from panel.remote.errors import (
    AuthenticationRefused,
    HostCertificateRefused,
    HostKeyChanged,
    HostKeyUnknown,
    HostUnreachable,
    InvalidKey,
)
from panel.remote.keys import authority_line, key_line, load_private_key, load_private_keys, new_private_key
from panel.remote.target import Target
from tests.remote.conftest import without_key
from tests.support.process import tool
from tests.support.recording_ssh_server import impostor_running
from tests.support.sshd import SshServer, make_key


class Authority:
    """An authority whose keys are files, as ssh-keygen makes them."""

    def __init__(self, root: Path, name: str = "ca", kind: str = "ed25519") -> None:
        self.path = root / name
        argv = [tool("ssh-keygen"), "-q", "-t", kind, "-N", "", "-f", str(self.path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)

    @property
    def line(self) -> str:
        return " ".join(Path(f"{self.path}.pub").read_text().split()[:2])

    def sign(self, sshd: SshServer, *options: str, names: str = "127.0.0.1", key: str = "host_key") -> None:
        """Sign the host key of the server, which presents the certificate from its next start."""
        argv = [tool("ssh-keygen"), "-q", "-s", str(self.path), "-I", "web1", *(options or ("-h",))]
        argv += ["-n", names, str(sshd.root / f"{key}.pub")]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
        sshd.more_config = f"HostCertificate {sshd.root}/{key}-cert.pub\n"


@pytest.fixture
def plain_sshd(server_root: Path) -> Iterator[SshServer]:
    """A server that is not started yet."""
    server = SshServer(server_root / "sshd")
    yield server
    server.stop()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def target_of(sshd: SshServer, *authorities: Authority, host_key: str = "") -> Target:
    return Target(
        name="web1",
        kind="ssh",
        address="127.0.0.1",
        port=sshd.port,
        username=sshd.username,
        private_key=sshd.private_key,
        host_key=host_key,
        authorities=tuple(item.line for item in authorities),
    )


def signs_in(target: Target) -> bool:
    transport = ssh.connect(target)
    try:
        return bool(transport.is_authenticated())
    finally:
        transport.close()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_host_whose_key_an_authority_signed_is_trusted_without_a_pinned_key(
    plain_sshd: SshServer, tmp_path: Path, kind: str
) -> None:
    authority = Authority(tmp_path, kind=kind)
    authority.sign(plain_sshd)
    plain_sshd.start()
    target = target_of(plain_sshd, authority)
    ssh.connect(target).close()
    assert ssh.offered_key(target) == ssh.Offered(plain_sshd.host_key, is_certified=True)


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_certificate_of_any_key_type_is_accepted(plain_sshd: SshServer, authority: Authority, kind: str) -> None:
    for name in ("host_key", "host_key.pub"):
        (plain_sshd.root / name).unlink()
    argv = [tool("ssh-keygen"), "-q", "-t", kind, "-N", "", "-f", str(plain_sshd.root / "host_key")]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    authority.sign(plain_sshd)
    plain_sshd.start()
    assert signs_in(target_of(plain_sshd, authority))


def test_certificate_for_the_name_in_the_panel_is_accepted(plain_sshd: SshServer, authority: Authority) -> None:
    authority.sign(plain_sshd, names="web1,web1.example")
    plain_sshd.start()
    assert signs_in(target_of(plain_sshd, authority))


@pytest.mark.parametrize(
    ("options", "names", "words"),
    [
        (("-h",), "other.example", "the certificate is not for 127.0.0.1 or web1"),
        (("-h", "-V", "20200101:20210101"), "127.0.0.1", "the certificate has expired"),
        (("-h", "-V", "20900101:20910101"), "127.0.0.1", "the certificate is not valid yet"),
        (("-O", "clear"), "127.0.0.1", "the certificate is for users, not for hosts"),
    ],
)
def test_certificate_that_does_not_vouch_for_the_host_is_refused(
    plain_sshd: SshServer, authority: Authority, options: tuple[str, ...], names: str, words: str
) -> None:
    authority.sign(plain_sshd, *options, names=names)
    if "-h" not in options:  # sshd presents host certificates only, so the check is asked directly
        certificate = (plain_sshd.root / "host_key-cert.pub").read_bytes()
        assert words in _refusal(certificate, authority)
        return
    plain_sshd.start()
    with pytest.raises(HostCertificateRefused, match=words):
        ssh.connect(target_of(plain_sshd, authority))
    assert "Accepted" not in (plain_sshd.root / "sshd.log").read_text()


def _refusal(certificate: bytes, authority: Authority) -> str:
    return host_certificates.refusal(certificate, [authority.line], ["127.0.0.1"], dt.datetime.now(dt.UTC))


def test_certificate_of_another_authority_is_refused(
    plain_sshd: SshServer, authority: Authority, tmp_path: Path
) -> None:
    Authority(tmp_path, "foreign").sign(plain_sshd)
    plain_sshd.start()
    with pytest.raises(HostCertificateRefused, match="another authority signed the certificate"):
        ssh.connect(target_of(plain_sshd, authority))


def test_pinned_key_is_enough_when_the_certificate_is_not_valid(
    plain_sshd: SshServer, authority: Authority, tmp_path: Path
) -> None:
    Authority(tmp_path, "foreign").sign(plain_sshd)
    plain_sshd.start()
    assert signs_in(target_of(plain_sshd, authority, host_key=plain_sshd.host_key))


def test_new_key_of_a_host_is_accepted_with_a_certificate_only(plain_sshd: SshServer, authority: Authority) -> None:
    former = plain_sshd.host_key
    plain_sshd.new_host_key()
    authority.sign(plain_sshd)
    plain_sshd.start()
    ssh.connect(target_of(plain_sshd, authority, host_key=former)).close()
    plain_sshd.stop()
    plain_sshd.more_config = ""
    plain_sshd.start()
    with pytest.raises(HostKeyChanged):
        ssh.connect(target_of(plain_sshd, authority, host_key=former))


def test_host_without_certificate_and_pinned_key_is_sent_nothing(plain_sshd: SshServer, authority: Authority) -> None:
    plain_sshd.start()
    with pytest.raises(HostKeyUnknown):
        ssh.connect(target_of(plain_sshd, authority))
    assert ssh.offered_key(target_of(plain_sshd, authority)) == ssh.Offered(plain_sshd.host_key)


def test_impostor_gets_no_secret_although_an_authority_is_trusted(
    plain_sshd: SshServer, authority: Authority, tmp_path: Path
) -> None:
    with impostor_running() as (port, server):
        target = replace(target_of(plain_sshd, authority, host_key=plain_sshd.host_key), port=port, password="secret")
        with pytest.raises(HostKeyChanged):
            ssh.connect(target)
        assert server.attempts == []


@pytest.mark.parametrize("change", ["cut", "signature", "text"])
def test_certificate_that_was_changed_is_refused(plain_sshd: SshServer, authority: Authority, change: str) -> None:
    authority.sign(plain_sshd)
    kind, text = (plain_sshd.root / "host_key-cert.pub").read_bytes().split()[:2]
    blob = bytearray(base64.b64decode(text))
    if change == "signature":
        blob[-1] ^= 1
    made = {"cut": bytes(blob[:80]), "signature": bytes(blob), "text": b"no certificate"}[change]
    assert _refusal(kind + b" " + base64.b64encode(made), authority) in (
        "Paddock cannot read the certificate",
        "the signature of the certificate is not valid",
    )


def test_host_with_other_key_types_only_is_unreachable_and_says_why(
    plain_sshd: SshServer, authority: Authority
) -> None:
    for name in ("host_key", "host_key.pub"):
        (plain_sshd.root / name).unlink()
    argv = [tool("ssh-keygen"), "-q", "-t", "rsa", "-N", "", "-f", str(plain_sshd.root / "host_key")]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    plain_sshd.more_config = "HostKeyAlgorithms ssh-rsa\n"  # signatures with SHA-1
    plain_sshd.start()
    target = target_of(plain_sshd, authority)
    for call in (ssh.offered_key, ssh.connect):
        with pytest.raises((HostUnreachable, HostKeyUnknown)):
            call(target)


# --- the panel signs in with certificates ---


@pytest.fixture
def authority_key() -> str:
    return new_private_key()


def _let_in(sshd: SshServer, authority_key: str, *, forwards: bool = False) -> None:
    line = authority_line(key_line(load_private_key(authority_key)), forwards=forwards)
    (sshd.root / "authorized_keys").write_text(f"{line}\n")


def test_panel_signs_in_with_a_certificate_and_no_key_of_the_host(
    sshd: SshServer, target: Target, authority_key: str
) -> None:
    _let_in(sshd, authority_key)
    ssh.connect(replace(target, private_key="", authority_key=authority_key)).close()
    log = (sshd.root / "sshd.log").read_text()
    assert "Accepted publickey" in log and "ID paddock web1" in log


def test_certificate_of_another_authority_does_not_sign_in(sshd: SshServer, target: Target, authority_key: str) -> None:
    _let_in(sshd, new_private_key())
    with pytest.raises(AuthenticationRefused, match="the certificate"):
        ssh.connect(replace(target, private_key="", authority_key=authority_key))


def test_certificate_is_for_one_account_and_some_minutes_only(target: Target, authority_key: str) -> None:
    now = dt.datetime.now(dt.UTC)
    key = user_certificates.signed_key(authority_key, "deploy", "web1", forwards=False, now=now)
    found = load_ssh_public_identity(host_certificates.certificate_of(key))
    assert isinstance(found, SSHCertificate)
    assert found.valid_principals == [b"deploy"] and found.extensions == {} and found.critical_options == {}
    assert found.valid_before - found.valid_after == 1800
    other = user_certificates.signed_key(authority_key, "deploy", "web1", forwards=True, now=now)
    assert other.get_base64() != key.get_base64()


def test_certificate_opens_no_tunnel_unless_the_host_is_a_bastion(
    sshd: SshServer, target: Target, authority_key: str
) -> None:
    _let_in(sshd, authority_key, forwards=True)
    signed = replace(target, private_key="", authority_key=authority_key)
    transport = ssh.connect(signed)
    with pytest.raises(paramiko.ChannelException):
        transport.open_channel("direct-tcpip", ("127.0.0.1", sshd.port), ("127.0.0.1", 0), timeout=10)
    transport.close()
    transport = ssh.connect(replace(signed, forwards=True))
    transport.open_channel("direct-tcpip", ("127.0.0.1", sshd.port), ("127.0.0.1", 0), timeout=10).close()
    transport.close()


# --- several keys ---


def test_second_of_two_keys_signs_in(sshd: SshServer, target: Target, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    both = (tmp_path / "other").read_text() + sshd.private_key
    ssh.connect(replace(target, private_key=both)).close()
    with pytest.raises(AuthenticationRefused, match="the key"):
        ssh.connect(replace(target, private_key=(tmp_path / "other").read_text()))


def test_more_keys_than_sshd_allows_attempts_are_refused(tmp_path: Path) -> None:
    keys = "".join(new_private_key() for _ in range(6))
    with pytest.raises(InvalidKey, match="at most 5 private keys"):
        load_private_keys(keys)


def test_unknown_host_is_asked_for_nothing_without_authorities(target: Target) -> None:
    with pytest.raises(HostKeyUnknown):
        ssh.connect(without_key(target))
