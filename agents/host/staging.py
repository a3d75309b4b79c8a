"""Write new files next to the old ones under hidden names, and switch by renaming.

Folders are held open and all names are relative to them, so later changes of the path have no effect. No file is
written under its final name. The agent gives a file to another account only to keep the owner of an old file: for a
copy of the old file, and for a new version if the panel requests this. For example, OpenLiteSpeed's main file belongs
to its WebAdmin, which must be able to change the file.
"""

from __future__ import annotations

import os
from types import TracebackType

from agents.host import changes, faults, paths, safe
from agents.host.changes import Change, Plan
from agents.host.errors import NO_SPACE, Refusal, named


class Stage:
    """New files of one plan, under hidden names. As a context manager, it closes the opened folders; written files
    stay.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._folders: dict[str, int] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for descriptor in self._folders.values():
            os.close(descriptor)
        self._folders.clear()

    def write(self) -> None:
        """Create the missing folders, then write all new files under hidden names, and sync both to disk."""
        for path, mode in self._plan.folders:
            folder, name = os.path.split(path)
            try:
                self._folders[path] = safe.new_folder(name, self._folder(folder), mode)
            except OSError as error:
                raise named(error, path, 0) from error
        for change in self._plan.changes:
            try:
                self._write_draft(change)
            except OSError as error:
                raise named(error, change.wanted.named, len(change.wanted.content)) from error
        self.sync()

    def switch(self) -> None:
        """Carry out all changes: rename each new file to its final name, or remove the file. This is durable only after
        `sync`.
        """
        for number, change in enumerate(self._plan.changes):
            self._switch(change)
            faults.point("switch-%d" % number)

    def sync(self) -> None:
        """Sync the changed folders to disk."""
        for descriptor in self._folders.values():
            os.fsync(descriptor)

    def _folder(self, path: str) -> int:
        if path not in self._folders:
            self._folders[path] = paths.open_folder(path)
        return self._folders[path]

    def _write_draft(self, change: Change) -> None:
        """Write the new file under its hidden name, and keep the old file under a second name. The caller, `write`,
        syncs both names to disk.
        """
        wanted, folder = change.wanted, self._folder(change.wanted.folder)
        if change.found.kind != "absent":
            self._keep(change)
        if wanted.action == "link":
            os.symlink(wanted.target, change.draft, dir_fd=folder)
        elif wanted.action == "put":
            _write(
                change.draft, folder, wanted.content, wanted.mode, change.found.owner if wanted.keeps_owner else None
            )

    def _keep(self, change: Change) -> None:
        """Keep the old file under a hidden name: by a hard link, or as a copy if the file system has no hard links."""
        folder, name = self._folder(change.wanted.folder), change.wanted.name
        try:
            os.link(name, change.kept, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if change.found.kind != "file" or error.errno in NO_SPACE:
                raise
            _write(change.kept, folder, change.old, change.found.mode, change.found.owner)

    def _switch(self, change: Change) -> None:
        wanted, folder = change.wanted, self._folder(change.wanted.folder)
        if changes.Found(wanted.path, folder).mark != change.found.mark:
            raise Refusal(
                "drift",
                "%s was changed on the host during the deployment; the new configuration is not live" % wanted.named,
                path=wanted.named,
            )
        if wanted.action == "remove":
            os.unlink(wanted.name, dir_fd=folder)
        elif change.found.kind == "absent" and _linked(change.draft, wanted.name, folder):
            os.unlink(change.draft, dir_fd=folder)
        else:
            os.rename(change.draft, wanted.name, src_dir_fd=folder, dst_dir_fd=folder)


def _write(name: str, folder: int, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    """Write and sync a new file, owned by the agent if `owner` is None or cannot be set."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        _give(descriptor, owner)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give(descriptor: int, owner: tuple[int, int] | None) -> None:
    """Change the owner of an open file, if this is possible and changes anything. Callers set the mode afterwards,
    because a change of owner clears mode bits.
    """
    info = os.fstat(descriptor)
    if owner is None or owner == (info.st_uid, info.st_gid):
        return
    try:
        os.fchown(descriptor, *owner)
    except OSError:
        # only root may, and not in every container; the folder's permissions still let this account replace the file
        return


def _linked(draft: str, name: str, folder: int) -> bool:
    """Give a new file its final name by link(2), which never replaces a file that was created meanwhile; return True.

    Returns False if the file system has no hard links. Raises Refusal if the final name exists.
    """
    try:
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise Refusal("drift", "%s was created on the host during the deployment" % name, path=name) from None
    except OSError:
        return False
    return True
