"""The agent's process and its two streams, reached through SSH or as a child of this process."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import paramiko

from panel.remote import bundle, ssh
from panel.remote.bounds import MAX_STDERR_BYTES, BoundedSftp, TooMuch, bounded
from panel.remote.errors import AgentUnavailable, HostUnreachable, SudoRefused
from panel.remote.target import Target

START_TIMEOUT_S = 20.0
SFTP_TIMEOUT_S = 60.0  # for each reply
# How often Paramiko's thread looks up while nothing comes, to send its keepalive. Its own 0.1 s cost fifty idle
# connections two hundredths of a CPU.
IDLE_S = 5.0
FOLDER = ".paddock"  # below the login's home folder
KEPT_BUNDLES = 3
KEPT_FOR_S = 24 * 3600
MAX_LISTED = 10_000
# What a login's start-up files may print before the agent speaks.
MAX_PREAMBLE_BYTES = 64 * 1024
SUDO_PROMPT = "paddock-sudo:"
READY = b'"type":"ready"'  # a login's start-up files may print something before it
# The distribution's Python first: one that a login profile puts before it may be a slow wrapper.
PYTHONS = ("/usr/bin/python3", "python3")


class Link(Protocol):
    """A started agent: bytes to it and from it. `read` never waits: None when there is nothing, b"" at the end. What
    `fileno` names can be read when there is something, or the end."""

    def write(self, data: bytes) -> None: ...

    def read(self) -> bytes | None: ...

    def fileno(self) -> int: ...

    def broke(self) -> str: ...  # what the other end did that ended the connection, "" mostly

    def close(self) -> None: ...

    def put(self, local: Path, remote: str) -> str: ...


class LocalLink:
    """The agent as a child process; its file lies in the target's folder, which it also works in."""

    def __init__(self, target: Target) -> None:
        assert target.folder is not None
        self.folder = target.folder
        path = bundle.written_to(self.folder)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "PADDOCK_AGENT_STATE": str(self.folder / "state"),
            **{name: os.environ[name] for name in ("TMPDIR",) if name in os.environ},
            **{name: value for name, value in os.environ.items() if name.startswith("PADDOCK_AGENT_")},
        }
        self._process = subprocess.Popen(
            bundle.argv(sys.executable, str(path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.folder,
            env=environment,
            start_new_session=True,  # Ctrl-C in the panel's terminal is not the agent's: it ends with its input
        )
        os.set_blocking(self.fileno(), False)

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def read(self) -> bytes | None:
        try:
            return os.read(self.fileno(), 65536)
        except BlockingIOError:
            return None

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def broke(self) -> str:
        return ""

    def close(self) -> None:
        """Closes the agent's input; it ends by itself, once a running transaction has come to its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it finishes what it does, then ends by itself
            self._process.wait(0.5)

    def put(self, local: Path, remote: str) -> str:
        """Copies a file into the agent's folder; returns its absolute path."""
        path = self.folder / remote
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(local.read_bytes())
        draft.replace(path)
        return str(path)


class SshLink:
    """The agent at the other end of one SSH channel."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._heard = b""  # read while waiting for the agent to be ready
        self._chatter = 0  # bytes of its standard error
        self._transport = ssh.connect(target)
        try:
            self._channel = self._started()
            self._transport.sock.settimeout(IDLE_S)
        except BaseException:
            self._transport.close()
            raise

    def write(self, data: bytes) -> None:
        self._channel.sendall(data)

    def read(self) -> bytes | None:
        if self._heard:
            heard, self._heard = self._heard, b""
            return heard
        ended = self._channel.eof_received or self._channel.closed  # asked first: what came before it is read still
        if self._channel.recv_stderr_ready():  # kept flowing, or a chatty agent would block on a full window
            self._chatter += len(self._channel.recv_stderr(65536))
            if self._chatter > MAX_STDERR_BYTES:
                raise TooMuch(f"it wrote more than {MAX_STDERR_BYTES} bytes of errors")
        if self._channel.recv_ready():
            return self._channel.recv(65536)
        return b"" if ended else None

    def fileno(self) -> int:
        return int(self._channel.fileno())

    def broke(self) -> str:
        error = self._transport.saved_exception
        return str(error) if isinstance(error, TooMuch) else ""

    def close(self) -> None:
        # Wakes the thread that reads: it would not notice for IDLE_S that the transport is closed.
        with contextlib.suppress(OSError):
            self._transport.sock.shutdown(socket.SHUT_RDWR)
        self._transport.close()

    def put(self, local: Path, remote: str) -> str:
        """Uploads a file below the agent's folder unless one of that name and size is there; its absolute path."""
        with BoundedSftp.over(self._transport, SFTP_TIMEOUT_S) as sftp:
            _make_folder(sftp)
            path = f"{FOLDER}/{remote}"
            try:
                there = sftp.stat(path).st_size == local.stat().st_size
            except FileNotFoundError:
                there = False
            if not there:
                with local.open("rb") as file:
                    _upload(sftp, iter(lambda: file.read(bundle.PART_BYTES), b""), path)
            return sftp.normalize(path)

    def _started(self) -> paramiko.Channel:
        """Runs the agent, which is uploaded first when the host does not have it."""
        uploaded = False
        pythons = list(PYTHONS)
        while True:
            channel = bounded(self._transport.open_session(timeout=START_TIMEOUT_S))
            channel.exec_command(self._command(pythons[0]))
            said = self._first_words(channel)
            if said is None:
                return channel
            channel.close()
            if bundle.NOT_THERE in said and not uploaded:
                self._install()
                uploaded = True
            elif len(pythons) > 1 and ("not found" in said or "No such file" in said):
                pythons.pop(0)
            else:
                raise self._refused(said)

    def _command(self, python: str) -> str:
        """What sshd hands to the login's shell.

        SSH carries one string, not a list of arguments. This one is made of fixed words and the bundle's name, which
        is "agent-", sixty-four hexadecimal digits and ".pyz": nothing that anybody typed is ever part of it.
        """
        agent = shlex.join(bundle.argv(python, f"{FOLDER}/{bundle.bundle().name}"))
        if not self.target.sudo:
            return f"exec {agent}"
        if self.target.sudo_password:
            return f"exec sudo -S -k -p {SUDO_PROMPT} -- {agent}"
        return f"exec sudo -n -- {agent}"

    def _first_words(self, channel: paramiko.Channel) -> str | None:
        """None once the agent is ready; what was said on standard error when it ends before."""
        said = b""
        self._heard = b""
        answered = False
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if channel.recv_ready():
                self._heard += channel.recv(65536)
                if READY in self._heard:
                    return None
                if len(self._heard) > MAX_PREAMBLE_BYTES:
                    return f"it printed more than {MAX_PREAMBLE_BYTES} bytes before the agent was ready"
            elif channel.recv_stderr_ready():
                said = (said + channel.recv_stderr(4096))[-MAX_PREAMBLE_BYTES:]
                if SUDO_PROMPT.encode() in said and self.target.sudo_password:
                    if answered:
                        raise SudoRefused(self.target.name, self.target.username, "the stored password is wrong")
                    # On standard input alone, and only when asked: an agent that sudo starts without asking would
                    # take the password for a request.
                    channel.sendall(self.target.sudo_password.encode() + b"\n")
                    said, answered = b"", True
            elif channel.exit_status_ready() and not channel.recv_ready() and not channel.recv_stderr_ready():
                words = said.decode(errors="replace").strip() or self.broke()
                return words or f"the agent exited with status {channel.recv_exit_status()}"
            else:
                select.select([channel.fileno()], [], [], 0.1)
        return f"the agent sent no output within {START_TIMEOUT_S:g} s"

    def _install(self) -> None:
        made = bundle.bundle()
        try:
            with BoundedSftp.over(self._transport, SFTP_TIMEOUT_S) as sftp:
                _make_folder(sftp)
                _upload(sftp, made.parts(), f"{FOLDER}/{made.name}")
                _forget_old(sftp)
        except (OSError, paramiko.SSHException) as error:
            raise AgentUnavailable(
                self.target.name,
                f"the agent cannot be uploaded over SFTP ({error}). Check the sftp subsystem and the free disk space",
            ) from None

    def _refused(self, said: str) -> Exception:
        words = said[-1000:]
        if self.target.sudo and "sudo:" in words:
            return SudoRefused(self.target.name, self.target.username, words)
        if "not found" in words or "No such file" in words:
            words = "python3 was not found. Install Python 3.8 or newer on the host."
        return AgentUnavailable(self.target.name, words)


def _make_folder(sftp: paramiko.SFTPClient) -> None:
    try:
        sftp.mkdir(FOLDER, 0o700)
    except OSError:
        sftp.stat(FOLDER)  # it was there; else this says what is wrong


def _upload(sftp: paramiko.SFTPClient, parts: Iterable[bytes], path: str) -> None:
    """Whole or not at all: under another name first, then renamed over."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{os.getpid()}-{time.monotonic_ns()}"
    with sftp.open(draft, "wb") as file:
        file.set_pipelined(True)
        for part in parts:
            file.write(part)
    sftp.chmod(draft, 0o700)
    sftp.posix_rename(draft, path)


def _forget_old(sftp: paramiko.SFTPClient) -> None:
    """Keeps the newest bundles, and any of the last day: another panel may still run one, and an agent imports from its
    own as it goes."""
    listed = itertools.islice(sftp.listdir_iter(FOLDER), MAX_LISTED)
    found = [item for item in listed if item.filename.startswith("agent-")]
    found.sort(key=lambda item: item.st_mtime or 0)
    for item in found[:-KEPT_BUNDLES]:
        if (item.st_mtime or 0) < (found[-1].st_mtime or 0) - KEPT_FOR_S:
            with contextlib.suppress(FileNotFoundError):  # another connection was quicker
                sftp.remove(f"{FOLDER}/{item.filename}")


def open_link(target: Target) -> Link:
    """A started agent. Raises a RemoteError."""
    if target.kind == "local":
        try:
            return LocalLink(target)
        except OSError as error:
            raise AgentUnavailable(target.name, str(error)) from None
    try:
        return SshLink(target)
    except (paramiko.SSHException, OSError, EOFError) as error:
        reason = str(error) or "the connection was closed"
        raise HostUnreachable(target.name, target.endpoint, reason) from None
