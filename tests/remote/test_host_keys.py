"""No account data leaves the panel before the host's key equals the pinned one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from panel.remote import keys, ssh
from panel.remote.errors import AuthenticationRefused, HostKeyChanged, HostKeyUnknown, InvalidKey
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.remote.conftest import without_key
from tests.support.recording_ssh_server import Recorder, impostor_running
from tests.support.sshd import SshServer


@pytest.fixture
def impostor() -> Iterator[tuple[int, Recorder]]:
    with impostor_running() as running:
        yield running


def test_first_contact_returns_fingerprint_without_authentication(
    sshd: SshServer, impostor: tuple[int, Recorder]
) -> None:
    assert ssh.offered_key(Target("web1", "ssh", address="127.0.0.1", port=sshd.port)).line == sshd.host_key
    port, recorder = impostor
    line = ssh.offered_key(Target("web1", "ssh", address="127.0.0.1", port=port)).line
    assert keys.fingerprint(line).startswith("SHA256:")
    assert recorder.attempts == []


def test_host_without_pinned_key_is_sent_nothing(target: Target, pool: Pool) -> None:
    with pytest.raises(HostKeyUnknown), pool.session(without_key(target)):
        pass


@pytest.mark.parametrize("secret", ["key", "password"])
def test_changed_host_key_fails_before_secrets_are_sent(
    target: Target, pool: Pool, impostor: tuple[int, Recorder], secret: str
) -> None:
    port, recorder = impostor
    changed = replace(target, port=port)
    if secret == "password":
        changed = replace(changed, private_key="", password="correct horse")
    with pytest.raises(HostKeyChanged) as refused, pool.session(changed):
        pass
    assert recorder.attempts == []
    assert keys.fingerprint(refused.value.offered) in refused.value.message
    assert keys.fingerprint(target.host_key) in refused.value.message
    assert not refused.value.retry


def test_host_key_of_same_type_counts_as_changed(sshd: SshServer, target: Target, pool: Pool) -> None:
    with pool.session(target) as agent:
        agent.call("hello")
    pool.close()
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(HostKeyChanged) as refused, pool.session(target):
        pass
    assert refused.value.offered == sshd.host_key
    with pool.session(replace(target, host_key=sshd.host_key)) as agent:
        assert agent.call("hello")


def test_rejected_login_error_names_user_and_remedy(target: Target, pool: Pool, tmp_path: Path) -> None:
    stranger = paramiko.ECDSAKey.generate()
    stranger.write_private_key_file(str(tmp_path / "key"))
    text = (tmp_path / "key").read_text()
    with pytest.raises(AuthenticationRefused) as refused, pool.session(replace(target, private_key=text)):
        pass
    assert "authorized_keys" in refused.value.message
    assert target.username in refused.value.message
    assert "PRIVATE" not in refused.value.message


@pytest.mark.parametrize(
    "text", ["", "hello", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"]
)
def test_invalid_private_key_is_rejected(text: str) -> None:
    with pytest.raises(InvalidKey, match="private key"):
        keys.load_private_key(text)


def test_private_key_with_passphrase_is_rejected_with_remedy(tmp_path: Path) -> None:
    paramiko.RSAKey.generate(2048).write_private_key_file(str(tmp_path / "key"), password="secret")
    with pytest.raises(InvalidKey, match="passphrase"):
        keys.load_private_key((tmp_path / "key").read_text())


@pytest.mark.parametrize("line", ["", "ssh-dss AAAA", "ssh-ed25519", "ssh-ed25519 !!!", "-oProxyCommand=x"])
def test_invalid_host_key_line_is_rejected(line: str) -> None:
    with pytest.raises(InvalidKey):
        keys.parse_key_line(line)
