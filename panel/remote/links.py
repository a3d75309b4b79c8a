"""Start the agent over SSH or as a child process, and exchange bytes with it."""

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
SFTP_TIMEOUT_S = 60.0  # per reply
# Interval at which Paramiko's thread wakes while idle, to send keepalives. With its default of 0.1 s, fifty idle
# connections used two percent of a CPU.
IDLE_S = 5.0
FOLDER = ".paddock"  # below the account's home folder
KEPT_BUNDLES = 3
KEPT_FOR_S = 24 * 3600
MAX_LISTED = 10_000
# Limit for the output of shell start-up files before the agent's first message.
MAX_PREAMBLE_BYTES = 64 * 1024
SUDO_PROMPT = "paddock-sudo:"
READY = b'"type":"ready"'  # shell start-up files may print something before it
# The distribution's Python first: an earlier one in the PATH may be a slow wrapper.
PYTHONS = ("/usr/bin/python3", "python3")


class Link(Protocol):
    """Interface of a connection to a started agent. `read` never blocks: it returns None if there is no data yet, and
    b"" at the end of the connection. The descriptor `fileno()` becomes readable when there is data, and at the end.
    """

    def write(self, data: bytes) -> None: ...

    def read(self) -> bytes | None: ...

    def fileno(self) -> int: ...

    def broke(self) -> str: ...  # protocol violation that ended the connection, usually ""

    def close(self) -> None: ...

    def put(self, local: Path, remote: str) -> str: ...


class LocalLink:
    """Agent as a child process on the panel's machine. The process runs in the target's folder, which also has its
    archive.
    """

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
            start_new_session=True,  # Ctrl-C in the panel's terminal must not stop the agent, which ends with its input
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
        """Close the agent's input and wait briefly for its exit; a running transaction ends first."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # already gone
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the agent finishes its work, then exits
            self._process.wait(0.5)

    def put(self, local: Path, remote: str) -> str:
        """Copy a file into the agent's folder; return its absolute path."""
        path = self.folder / remote
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(local.read_bytes())
        draft.replace(path)
        return str(path)


class SshLink:
    """Agent on a host, connected by one SSH channel."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._heard = b""  # data read while waiting for the ready message
        self._chatter = 0  # bytes on standard error
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
        ended = self._channel.eof_received or self._channel.closed  # checked first, so that earlier data is still read
        if self._channel.recv_stderr_ready():  # drain it, or the agent blocks on a full window
            self._chatter += len(self._channel.recv_stderr(65536))
            if self._chatter > MAX_STDERR_BYTES:
                raise TooMuch(f"the host wrote more than {MAX_STDERR_BYTES} bytes of error messages")
        if self._channel.recv_ready():
            return self._channel.recv(65536)
        return b"" if ended else None

    def fileno(self) -> int:
        return int(self._channel.fileno())

    def broke(self) -> str:
        error = self._transport.saved_exception
        return str(error) if isinstance(error, TooMuch) else ""

    def close(self) -> None:
        # Wakes the reading thread, which would otherwise notice the closed transport only after IDLE_S.
        with contextlib.suppress(OSError):
            self._transport.sock.shutdown(socket.SHUT_RDWR)
        self._transport.close()

    def put(self, local: Path, remote: str) -> str:
        """Upload a file to the agent's folder; return its absolute path. A file of the same name and size is not
        uploaded again.
        """
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
        """Start the agent, after uploading it if the host lacks it; return its SSH channel."""
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
                self._upload_agent()
                uploaded = True
            elif len(pythons) > 1 and ("not found" in said or "No such file" in said):
                pythons.pop(0)
            else:
                raise self._refused(said)

    def _command(self, python: str) -> str:
        """Return the command line that starts the agent, for the shell of the account on the host.

        SSH sends one string, not a list of arguments. The string consists of constants and the bundle's name, "agent-",
        64 hexadecimal digits and ".pyz", so it never contains user input.
        """
        agent = shlex.join(bundle.argv(python, f"{FOLDER}/{bundle.bundle().name}"))
        if not self.target.sudo:
            return f"exec {agent}"
        if self.target.sudo_password:
            return f"exec sudo -S -k -p {SUDO_PROMPT} -- {agent}"
        return f"exec sudo -n -- {agent}"

    def _first_words(self, channel: paramiko.Channel) -> str | None:
        """Wait until the agent is ready, and return None. If the agent does not start, return its error output, or the
        reason if it printed none. Enter the sudo password if sudo asks for it.
        """
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
                    return f"the host printed more than {MAX_PREAMBLE_BYTES} bytes before the agent was ready"
            elif channel.recv_stderr_ready():
                said = (said + channel.recv_stderr(4096))[-MAX_PREAMBLE_BYTES:]
                if SUDO_PROMPT.encode() in said and self.target.sudo_password:
                    if answered:
                        raise SudoRefused(
                            self.target.name, self.target.username, "sudo rejects the stored sudo password"
                        )
                    # Sent on standard input, and only after sudo's prompt: without a prompt, the agent would read the
                    # password as a request.
                    channel.sendall(self.target.sudo_password.encode() + b"\n")
                    said, answered = b"", True
            elif channel.exit_status_ready() and not channel.recv_ready() and not channel.recv_stderr_ready():
                words = said.decode(errors="replace").strip() or self.broke()
                return words or f"the agent exited with status {channel.recv_exit_status()}"
            else:
                _await_readable(channel.fileno(), 0.1)
        return f"the agent sent no output within {START_TIMEOUT_S:g} s"

    def _upload_agent(self) -> None:
        made = bundle.bundle()
        try:
            with BoundedSftp.over(self._transport, SFTP_TIMEOUT_S) as sftp:
                _make_folder(sftp)
                _upload(sftp, made.parts(), f"{FOLDER}/{made.name}")
                _forget_old(sftp)
        except (OSError, paramiko.SSHException) as error:
            raise AgentUnavailable(
                self.target.name,
                f"Paddock cannot upload the agent over SFTP ({error}). Check the sftp subsystem of sshd, and the "
                "free disk space on the host",
            ) from None

    def _refused(self, said: str) -> Exception:
        words = said[-1000:]
        if self.target.sudo and "sudo:" in words:
            return SudoRefused(self.target.name, self.target.username, words)
        if "not found" in words or "No such file" in words:
            words = "python3 does not exist on the host. Install Python 3.8 or newer on the host."
        return AgentUnavailable(self.target.name, words)


def _await_readable(descriptor: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable, with poll(2): select(2) fails for descriptors above 1,023, which a panel
    with 500 hosts reaches.
    """
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    waiting.poll(timeout_s * 1000)


def _make_folder(sftp: paramiko.SFTPClient) -> None:
    try:
        sftp.mkdir(FOLDER, 0o700)
    except OSError:
        sftp.stat(FOLDER)  # already exists; any other error is raised here


def _upload(sftp: paramiko.SFTPClient, parts: Iterable[bytes], path: str) -> None:
    """Upload a file in parts under a temporary name, then rename it, so that `path` never has an incomplete file."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{os.getpid()}-{time.monotonic_ns()}"
    with sftp.open(draft, "wb") as file:
        file.set_pipelined(True)
        for part in parts:
            file.write(part)
    sftp.chmod(draft, 0o700)
    sftp.posix_rename(draft, path)


def _forget_old(sftp: paramiko.SFTPClient) -> None:
    """Delete archives of the agent that are more than a day older than the newest one; always keep the newest ones.

    Another panel may still run an old agent, and an agent imports from its archive while it runs.
    """
    listed = itertools.islice(sftp.listdir_iter(FOLDER), MAX_LISTED)
    found = [item for item in listed if item.filename.startswith("agent-")]
    found.sort(key=lambda item: item.st_mtime or 0)
    for item in found[:-KEPT_BUNDLES]:
        if (item.st_mtime or 0) < (found[-1].st_mtime or 0) - KEPT_FOR_S:
            with contextlib.suppress(FileNotFoundError):  # already deleted by another connection
                sftp.remove(f"{FOLDER}/{item.filename}")


def open_link(target: Target) -> Link:
    """Start the agent on a target and return the connection to it. Raises RemoteError."""
    if target.kind == "local":
        try:
            return LocalLink(target)
        except OSError as error:
            raise AgentUnavailable(target.name, str(error)) from None
    try:
        return SshLink(target)
    except (paramiko.SSHException, OSError, EOFError) as error:
        reason = str(error) or "the host closed the connection"
        raise HostUnreachable(target.name, target.endpoint, reason) from None
