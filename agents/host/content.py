"""Publish the files of a site: prepare a new folder beside the old one, then exchange the two.

    P/public                        the site's folder, which web servers open
    P/.paddock-content.public/r12   the folder of release 12, while it waits or after it was replaced
    P/.paddock-content.public/r12.json   its files, to recognize it and to notice later changes
    P/.paddock-content.public/found-1764  a folder that was there before the first release

Only the agent's account can enter `.paddock-content.public` (the store). The folder P must be one that no other account
can change (safe.py); published files belong to the owner of the folder that they replace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tarfile
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, Tuple

from agents.host import content_kept, content_tree, exchange, paths, safe
from agents.host.content_tree import Files
from agents.host.errors import Refusal
from agents.host.install import Place
from agents.host.operations import Emit

PREFIX = ".paddock-content."
MOST_SHOWN = 20
_NAME = re.compile(r"r[0-9]{1,9}")
_UPLOAD = re.compile(r"content-[0-9a-f]{64}")


class _Site:
    """Open folders of one site's content: descriptors of the parent folder (`above`), and of the folder with the
    releases (`store`).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.above = paths.open_folder(os.path.dirname(path))
        try:
            safe.require_own(self.above, os.path.dirname(path))
            with contextlib.suppress(FileExistsError):
                os.mkdir(PREFIX + self.name, 0o700, dir_fd=self.above)
            self.store = os.open(PREFIX + self.name, safe.FOLDER, dir_fd=self.above)
        except BaseException:
            os.close(self.above)
            raise
        try:
            if os.fstat(self.store).st_uid != os.geteuid():
                raise Refusal("refused", "%s%s belongs to another account" % (PREFIX, self.name), path=path)
            os.fchmod(self.store, 0o700)
            # A late request, over a connection that seemed lost, waits for the running one.
            fcntl.flock(self.store, fcntl.LOCK_EX)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.store)
        os.close(self.above)

    def opened(self) -> int | None:
        """Return a descriptor of the site's folder; None if the folder is missing."""
        try:
            return os.open(self.name, safe.FOLDER, dir_fd=self.above)
        except FileNotFoundError:
            return None
        except OSError:
            raise Refusal("refused", "%s is a symbolic link or not a folder" % self.path, path=self.path) from None

    def stored(self, name: str) -> bytes:
        """Return the content of a file in the store; empty if the file is missing."""
        try:
            descriptor = os.open(name, safe.READ, dir_fd=self.store)
        except FileNotFoundError:
            return b""
        try:
            return safe.content(descriptor)
        finally:
            os.close(descriptor)

    def recorded(self, release: str) -> Dict[str, Any]:
        return content_tree.recorded(self.stored(release + ".json"))

    def exists(self) -> bool:
        return self.name in os.listdir(self.above)

    def releases(self) -> List[str]:
        """Return the names of the releases that have a record in the store."""
        names = [name[:-5] for name in os.listdir(self.store) if name.endswith(".json")]
        return sorted(name for name in names if _NAME.fullmatch(name))

    def current(self) -> str:
        """Return the release that is in the site's folder now; "" for files that were not published."""
        tree = self.opened()
        return "" if tree is None else self._named(tree)

    def identified(self, entry: str) -> str:
        """Return a name for a folder in the store: that of its release, or "found-" and the Unix time for unpublished
        files.
        """
        return self._named(os.open(entry, safe.FOLDER, dir_fd=self.store)) or "found-%d" % time.time()

    def _named(self, tree: int) -> str:
        """Return the release to which an open folder belongs, "" for unpublished files; close the folder."""
        try:
            here = content_tree.identity(tree)
        finally:
            os.close(tree)
        return next((name for name in self.releases() if self.recorded(name).get("identity") == here), "")


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Carry out an action of publishing: {"action", "folder", "roots"} and further arguments.

    stage: {"release", "source", "sha256", "bytes"} -> {"files"}: unpack an uploaded archive beside the folder. The
        upload is removed, even if unpacking fails.
    look: {"own": {path: SHA-256}, "keep": [paths]} -> {"current", "strange", "count"}: files that were not published,
        without those of `own` (the placeholder page) and `keep`; at most MOST_SHOWN are named.
    measure: {"keep"} -> {"kept": {path: size and owner}}, see content_kept.measured.
    switch: {"release", "keep"} -> {"replaced", "atomic"}: exchange the folders, and move the kept paths.
    return: {"release", "keep"} -> {}: undo a switch.
    tidy: {"keep_releases": [names]} -> {"removed", "current"}: remove other releases, but no unpublished files.

    "current" is the release in the folder, "" for files that were not published.
    """
    action = _ACTIONS.get(str(args.get("action")))
    if action is None:
        raise Refusal("invalid", "action is one of %s" % ", ".join(_ACTIONS))
    path = paths.resolve(args.get("folder"), paths.resolve_roots(args.get("roots")))
    try:
        site = _Site(path)
    except FileNotFoundError:
        raise Refusal("missing", "%s does not exist on this host" % os.path.dirname(path), path=path) from None
    except OSError as error:
        raise Refusal("failed", "%s: %s" % (path, error.strerror or error), path=path) from None
    try:
        return action(site, args)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise Refusal("refused", "the archive is damaged: %s" % error, path=path) from None
    except OSError as error:
        raise Refusal("failed", "%s: %s" % (path, error.strerror or error), path=path) from None
    finally:
        site.close()


def _stage(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    try:
        return _staged(site, args)
    finally:
        _forget_upload(str(args.get("source")))


def _staged(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    release, size = _release(args), args.get("bytes")
    if not isinstance(size, int) or size < 0:
        raise Refusal("invalid", "bytes is the size of the unpacked files")
    found = site.recorded(release)
    if found and (release in os.listdir(site.store) or release == site.current()):
        return {"files": len(found["files"])}
    disk = os.fstatvfs(site.store)
    if disk.f_bavail * disk.f_frsize < size * 1.1:
        raise Refusal("failed", "the disk has no space for another %d bytes; free some space" % size, path=site.path)
    for entry in (release, release + ".new", release + ".json"):
        safe.remove_tree(entry, site.store)
    try:
        _unpacked(site, release, args)
        record = site.recorded(release)
        os.rename(release + ".new", release, src_dir_fd=site.store, dst_dir_fd=site.store)
    except BaseException:
        safe.remove_tree(release + ".new", site.store)
        safe.remove_tree(release + ".json", site.store)
        raise
    return {"files": len(record["files"])}


def _unpacked(site: _Site, release: str, args: Dict[str, Any]) -> None:
    """Unpack the uploaded archive, and record the unpacked tree.

    The agent copies the archive, then verifies and unpacks the copy, which the SSH account cannot replace.
    """
    owner, mode = _owner(site)
    with Place(os.path.join(os.path.dirname(site.path), PREFIX + site.name, release)) as place:
        archive = place.checked_copy(str(args.get("source")), str(args.get("sha256")))
        tree = safe.new_folder(release + ".new", site.store, 0o700)
        try:
            with os.fdopen(os.open(archive, safe.READ, dir_fd=site.store), "rb") as file:
                content_tree.unpack(file, tree, owner)
            if owner is not None:
                os.fchown(tree, *owner)
            os.fchmod(tree, mode)
            os.sync()
            safe.write_new(release + ".json", site.store, content_tree.manifest(tree), 0o600)
        finally:
            os.close(tree)
            place.unlink(archive)


def _forget_upload(source: str) -> None:
    """Remove the uploaded archive from the SSH account's folder, but only if its name is that of an upload."""
    folder, name = os.path.split(source)
    if not _UPLOAD.fullmatch(name):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)


def _owner(site: _Site) -> Tuple[Tuple[int, int] | None, int]:
    """Return owner (uid, gid) and mode of the site's folder.

    The owner is None if the agent is not root, or if the folder is missing.
    """
    tree = site.opened()
    if tree is None:
        return None, 0o755
    try:
        info = os.fstat(tree)
    finally:
        os.close(tree)
    return ((info.st_uid, info.st_gid) if os.geteuid() == 0 else None), info.st_mode & 0o777


def _look(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    own, keep = args.get("own"), content_kept.checked(args)
    if not isinstance(own, dict):
        raise Refusal("invalid", "own is an object of paths and digests")
    tree = site.opened()
    if tree is None:
        return {"current": "", "strange": [], "count": 0}
    current = site.current()
    try:
        published: Files = site.recorded(current).get("files", {}) if current else {}
        strange = [
            path
            for path, state in content_tree.listed(tree, keep).items()
            if published.get(path) != state and not _is_own(tree, path, own)
        ]
    finally:
        os.close(tree)
    return {"current": current, "strange": sorted(strange)[:MOST_SHOWN], "count": len(strange)}


def _measure(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    tree = site.opened()
    if tree is None:
        return {"kept": {}}
    try:
        return {"kept": content_kept.measured(tree, content_kept.checked(args))}
    finally:
        os.close(tree)


def _is_own(tree: int, path: str, own: Dict[str, Any]) -> bool:
    return path in own and content_tree.digest(tree, path) == own[path]


def _switch(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    """Exchange the site's folder with the folder of a release. A previous, interrupted switch is completed first."""
    release, keep, atomic = _release(args), content_kept.checked(args), True
    current = site.current()
    if current != release:
        if not site.recorded(release) or release not in os.listdir(site.store):
            raise Refusal("missing", "the release %s is not prepared on this host" % release)
        if current:
            _finish(site, current, keep)
        if not site.exists():
            os.rename(release, site.name, src_dir_fd=site.store, dst_dir_fd=site.above)
        else:
            atomic = exchange.exchange(release, site.store, site.name, site.above)
    _finish(site, release, keep)
    return {"replaced": _before(site, release), "atomic": atomic}


def _finish(site: _Site, release: str, keep: List[str]) -> None:
    """Complete an exchange: move the kept paths to the site's folder, and rename the former folder.

    After the exchange, the former folder is in the store under the name of the release.
    """
    if release not in os.listdir(site.store):
        return
    former = site.identified(release)
    if _number(former) < _number(release):  # otherwise a return was interrupted, after it had moved the kept paths
        for path in keep:
            _carry(site, release, path)
        safe.remove_tree(release + ".before", site.store)
        safe.write_new(release + ".before", site.store, former.encode(), 0o600)
    os.rename(release, former, src_dir_fd=site.store, dst_dir_fd=site.store)


def _number(name: str) -> int:
    """Return the number in the name of a release, which grows with each publication; 0 for a folder of unpublished
    files.
    """
    return int(name[1:]) if _NAME.fullmatch(name) else 0


def _before(site: _Site, release: str) -> str:
    """Return the name of the folder that the release replaced; "" if the site had no folder before."""
    if release in os.listdir(site.store):
        return release  # the switch was interrupted
    return site.stored(release + ".before").decode()


def _carry(site: _Site, source: str, path: str) -> None:
    """Move `path`, for example user uploads, from the folder `source` of the store to the site's folder."""
    there = os.open(source, safe.FOLDER, dir_fd=site.store)
    here = site.opened()
    assert here is not None
    try:
        content_tree.move(path, there, here)
    finally:
        os.close(there)
        os.close(here)


def _carry_back(site: _Site, former: str, path: str) -> None:
    """Move `path` from the site's folder to the folder `former` of the store, unless `former` still has such a path.

    `former` still has the path if the switch was interrupted.
    """
    there = os.open(former, safe.FOLDER, dir_fd=site.store)
    here = site.opened()
    assert here is not None
    try:
        if not content_tree.has(there, path):
            content_tree.move(path, here, there)
    finally:
        os.close(there)
        os.close(here)


def _return(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    """Undo a switch: restore the folder that the release replaced. The kept paths move first, then the folders are
    exchanged, so that a call that was interrupted before the exchange can be repeated.
    """
    release, keep = _release(args), content_kept.checked(args)
    if site.current() != release:
        raise Refusal("refused", "the folder no longer contains %s" % release, path=site.path)
    former = _before(site, release)
    if not former:
        os.rename(site.name, release, src_dir_fd=site.above, dst_dir_fd=site.store)
        return {}
    if former not in os.listdir(site.store):
        raise Refusal("missing", "the files from before the release %s are no longer on this host" % release)
    for path in keep:
        _carry_back(site, former, path)
    exchange.exchange(former, site.store, site.name, site.above)
    if former != release:
        os.rename(former, release, src_dir_fd=site.store, dst_dir_fd=site.store)
    return {}


def _tidy(site: _Site, args: Dict[str, Any]) -> Dict[str, Any]:
    wanted = args.get("keep_releases")
    if not isinstance(wanted, list):
        raise Refusal("invalid", "keep_releases is a list of releases")
    current = site.current()
    removed = []
    for entry in os.listdir(site.store):
        release = entry.partition(".")[0]
        if _NAME.fullmatch(release) and release not in wanted and release != current:
            safe.remove_tree(entry, site.store)
            removed.append(entry)
    return {"removed": sorted(removed), "current": current}


def _release(args: Dict[str, Any]) -> str:
    release = args.get("release")
    if not isinstance(release, str) or not _NAME.fullmatch(release):
        raise Refusal("invalid", "release is r and a number")
    return release


_ACTIONS: Dict[str, Callable[[_Site, Dict[str, Any]], Dict[str, Any]]] = {
    "stage": _stage,
    "look": _look,
    "measure": _measure,
    "switch": _switch,
    "return": _return,
    "tidy": _tidy,
}
