"""Files of ACME challenges (RFC 8555 section 8.3), which the host's web servers send to the certificate authority.

The agent owns the folder: everybody can read its files, and nobody else can write them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import Any

from agents.host import paths, safe
from agents.host.errors import Refusal
from agents.host.operations import Emit

MOST = 100  # files per call: the maximum number of names in a certificate
MOST_FILES = 5000  # in the folder
LONGEST = 255  # characters of a name and of a content; a token has 43, its key authorization 87 (RFC 8555 section 8.1)
FORGOTTEN_AFTER_S = 7 * 86400  # a killed panel leaves files; authorizations expire earlier
_SIGNS = {ord(sign): None for sign in "-_"}


def put(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Write files of ACME challenges: {"folder", "roots", "files": {name: content}} -> {"files": number of written
    files}. Names consist of base64url characters.
    """
    files = args.get("files")
    if not isinstance(files, dict) or not 0 < len(files) <= MOST:
        raise Refusal("invalid", "files is an object of 1 to %d files" % MOST)
    for name, content in files.items():
        _check_name(name)
        if not isinstance(content, str) or not _is_plain(content.replace(".", "-", 1)):
            raise Refusal("invalid", "the content of %s is not a key authorization" % name)
    folder, path = _opened(args)
    try:
        safe.require_own(folder, path)
        _forget(folder)
        if len(os.listdir(folder)) + len(files) > MOST_FILES:
            raise Refusal("refused", "%s holds more than %d files; remove what is old" % (path, MOST_FILES), path=path)
        for name, content in files.items():
            draft = ".%s.%s" % (name[:80], os.urandom(6).hex())
            safe.write_new(draft, folder, content.encode("ascii"), 0o644)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
    return {"files": len(files)}


def remove(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Delete files of ACME challenges: {"folder", "roots", "names": [names]} -> {"files": number of deleted files}."""
    names = args.get("names")
    if not isinstance(names, list) or not 0 < len(names) <= MOST:
        raise Refusal("invalid", "names is a list of 1 to %d names" % MOST)
    for name in names:
        _check_name(name)
    path = paths.resolve(args.get("folder"), paths.resolve_roots(args.get("roots")))
    try:
        folder = paths.open_folder(path)
    except FileNotFoundError:
        return {"files": 0}
    count = 0
    try:
        for name in names:
            try:
                os.unlink(name, dir_fd=folder)
                count += 1
            except FileNotFoundError:
                continue
    finally:
        os.close(folder)
    return {"files": count}


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _is_plain(name):
        raise Refusal("invalid", "a challenge's name is base64url, at most %d characters" % LONGEST)


def _is_plain(text: str) -> bool:
    return text.isascii() and 0 < len(text) <= LONGEST and (text.translate(_SIGNS) or "a").isalnum()


def _opened(args: dict[str, Any]) -> tuple[int, str]:
    """Open the folder of ACME challenges that `args` names; return its descriptor and path. The folder and its parents
    are created if missing, but only below one of the allowed roots.
    """
    path = paths.resolve(args.get("folder"), paths.resolve_roots(args.get("roots")))
    missing, above = [], path
    while True:
        try:
            descriptor = paths.open_folder(above)
            break
        except FileNotFoundError:
            above, last = os.path.split(above)
            missing.append(last)
    for part in reversed(missing):
        try:
            safe.require_own(descriptor, above)
            inner = safe.new_folder(part, descriptor, 0o755)
        except FileExistsError:  # another call was faster
            inner = os.open(part, safe.FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor, above = inner, os.path.join(above, part)
    return descriptor, path


def _forget(folder: int) -> None:
    """Delete challenge files older than FORGOTTEN_AFTER_S. Such files remain if the panel was killed before it deleted
    them.
    """
    before = time.time() - FORGOTTEN_AFTER_S
    for name in os.listdir(folder):
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(info.st_mode) and info.st_mtime < before:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            continue
