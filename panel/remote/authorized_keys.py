"""Change the file authorized_keys of the panel's account on a host, over SFTP as that account.

The agent does not change the file, because it often runs as root and must not write to another account's home folder.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from itertools import pairwise

import paramiko

from panel.core.errors import ApplicationError
from panel.remote import ssh
from panel.remote.bounds import BoundedSftp
from panel.remote.errors import ConnectionLost
from panel.remote.target import Target

FILE = ".ssh/authorized_keys"  # sshd's default (AuthorizedKeysFile), relative to the account's home
MOST_BYTES = 1024 * 1024
TIMEOUT_S = 30.0


def key_add(target: Target, line: str, beside: Sequence[str]) -> None:
    """Add the public key in `line` to authorized_keys, unless a line has this key already. `beside`: the public keys
    with which the panel signs in now.

    The new line gets the options of the first line that has a key of `beside`. Raises ApplicationError if the file has
    none of these keys, because sshd then reads the keys from another file. Raises RemoteError.
    """

    def changed(lines: list[str]) -> list[str]:
        present = next((row for row in lines if any(has_key(row, old) for old in beside)), None)
        if present is None:
            raise ApplicationError(
                f"{FILE} of {target.username} on {target.name} does not contain the current key, so sshd reads keys "
                "from another place. Replace the key by hand: edit the host, and create a new key.",
                code="keys_elsewhere",
            )
        return lines if any(has_key(row, line) for row in lines) else [*lines, with_options_of(present, line)]

    _change(target, changed)


def key_remove(target: Target, line: str) -> None:
    """Remove every line with the public key in `line` from authorized_keys; other lines stay. Raises RemoteError."""
    _change(target, lambda lines: [row for row in lines if not has_key(row, line)])


def with_options_of(row: str, line: str) -> str:
    """Return a line of authorized_keys with the key of `line` and the options of `row`, another such line. Return
    `line` itself if `row` has no options.
    """
    options, _kind, _rest = _parts(row)
    _own, kind, rest = _parts(line)
    return f"{options} {kind} {rest}" if options else line


def _parts(row: str) -> tuple[str, str, str]:
    """Split a line of authorized_keys into (options, key type, key and comment). Options may contain quoted spaces."""
    words = _WORD.findall(row)
    place = next((index for index, word in enumerate(words) if word.startswith(_KINDS)), 0)
    return " ".join(words[:place]), words[place], " ".join(words[place + 1 :])


def has_key(row: str, line: str) -> bool:
    """Return whether a line of authorized_keys (`row`) has the same key as `line`; options and comment may differ."""
    words = line.split()
    blob = next((word for before, word in pairwise(words) if before.startswith(_KINDS)), "")
    return bool(blob) and not row.lstrip().startswith("#") and blob in row.split()


_KINDS = ("ssh-", "ecdsa-")
_WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+')


def _change(target: Target, changed: Callable[[list[str]], Sequence[str]]) -> None:
    transport = ssh.connect(target)
    try:
        with BoundedSftp.over(transport, TIMEOUT_S) as sftp:
            _write(sftp, target, changed)
    except (paramiko.SSHException, EOFError, TimeoutError) as error:
        raise ConnectionLost(target.name, "sftp") from error
    except OSError as error:
        words = f"{FILE} of {target.username} on {target.name} cannot be changed: {error.strerror or error}"
        raise ApplicationError(words) from error
    finally:
        transport.close()


def _write(sftp: paramiko.SFTPClient, target: Target, changed: Callable[[list[str]], Sequence[str]]) -> None:
    """Replace authorized_keys atomically by the result of `changed`, a function that receives the old lines and returns
    the new ones. The file keeps its mode.
    """
    try:
        info = sftp.lstat(FILE)
    except FileNotFoundError:
        changed([])
        raise
    if not stat.S_ISREG(info.st_mode or 0) or (info.st_size or 0) > MOST_BYTES:
        words = f"{FILE} of {target.username} on {target.name} is not a regular file, or is larger than 1 MiB."
        raise ApplicationError(f"{words} Add the new key to the file by hand.")
    with sftp.open(FILE, "rb") as file:
        text = file.read(MOST_BYTES + 1).decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    rest = lines.pop() if lines[-1] == "" else None
    new = list(changed(lines))
    if new == lines:
        return
    data = "\n".join([*new, ""] if rest is not None or new[-1:] != lines[-1:] else new)
    draft = f"{FILE}.paddock"
    with sftp.open(draft, "wb") as file:
        file.chmod((info.st_mode or 0) & 0o777)
        file.write(data.encode("utf-8", "surrogateescape"))
    sftp.posix_rename(draft, FILE)
