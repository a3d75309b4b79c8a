"""The sudo password goes to standard input, only after sudo's prompt, and never to a command line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from panel.remote.errors import AgentUnavailable, SudoRefused
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.support.sshd import SshServer

# Does what sudo does with -n, -S, -k and -p, so that the test needs no account with a password: asks on standard
# error, reads one line of standard input, becomes the command.
SUDO = f"""#!{sys.executable} -ISB
import os, sys
arguments = sys.argv[1:]
command = arguments[arguments.index("--") + 1:]
open({{record!r}}, "a").write(" ".join(sys.argv) + "\\n")
if {{asks!r}}:
    if "-n" in arguments:
        sys.exit("sudo: a password is required")
    prompt = arguments[arguments.index("-p") + 1]
    for attempt in range(3):
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = b""
        while not line.endswith(b"\\n"):
            byte = os.read(0, 1)
            if not byte:
                sys.exit("sudo: no password was provided")
            line += byte
        if line == b"tr0ub4dor;$(id)\\n":
            break
        sys.stderr.write("Sorry, try again.\\n")
    else:
        sys.exit("sudo: 3 incorrect password attempts")
os.execvp(command[0], command)
"""


def install_sudo(sshd: SshServer, *, asks: bool) -> Path:
    folder = sshd.root / "bin"
    folder.mkdir()
    record = sshd.root / "sudo.log"
    (folder / "sudo").write_text(SUDO.format(record=str(record), asks=asks))
    (folder / "sudo").chmod(0o755)
    sshd.environment["PATH"] = f"{folder}:/usr/bin:/bin"
    sshd.stop()
    sshd.start()
    return record


def test_sudo_prompt_gets_password_on_standard_input(sshd: SshServer, target: Target, pool: Pool) -> None:
    record = install_sudo(sshd, asks=True)
    with pool.session(replace(target, sudo=True, sudo_password="tr0ub4dor;$(id)")) as agent:
        assert agent.call("hello")["pid"] > 0
    assert "tr0ub4dor" not in record.read_text()
    assert "-S -k -p paddock-sudo: -- /usr/bin/python3 -ISB " in record.read_text()


def test_sudo_without_prompt_gets_no_password(sshd: SshServer, target: Target, pool: Pool) -> None:
    install_sudo(sshd, asks=False)
    with pool.session(replace(target, sudo=True, sudo_password="tr0ub4dor;$(id)")) as agent:
        assert agent.call("hello")["pid"] > 0


def test_wrong_sudo_password_is_tried_once_and_reported(sshd: SshServer, target: Target, pool: Pool) -> None:
    install_sudo(sshd, asks=True)
    mistaken = replace(target, sudo=True, sudo_password="hunter2")
    with pytest.raises(SudoRefused, match="sudo rejects the stored sudo password") as refused, pool.session(mistaken):
        pass
    assert "hunter2" not in refused.value.message


def test_sudo_prompt_without_stored_password_gives_remedy(sshd: SshServer, target: Target, pool: Pool) -> None:
    install_sudo(sshd, asks=True)
    with pytest.raises(SudoRefused, match="NOPASSWD"), pool.session(replace(target, sudo=True)):
        pass


def test_host_without_python_error_names_package(
    sshd: SshServer, target: Target, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panel.remote.links.PYTHONS", ("/usr/bin/python-that-is-not-there",))
    with pytest.raises(AgentUnavailable, match=r"Install Python 3\.8"), pool.session(target):
        pass
