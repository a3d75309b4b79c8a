"""Folders for temporary files of PHP-FPM pools; each belongs to its pool's account and is closed to other accounts."""

from __future__ import annotations

import os
import pwd

from agents.host import safe
from agents.host.errors import Refusal

ABOVE, FOLDER = "/var/lib/php", "paddock"  # Debian's folder for PHP, and ours in it (panel/rendering/fpm.py)


def provide(name: str, account: str) -> None:
    """Create the folder for temporary files of the pool `name`. If it exists and belongs to another account than
    `account`, replace it by an empty one. Raises Refusal if the folder cannot be created.
    """
    entry = pwd.getpwnam(account)
    folder = _ours()
    try:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            info = None
        if info is not None and info.st_uid != entry.pw_uid:
            safe.remove_tree(name, folder)
            info = None
        if info is None:
            os.close(safe.new_folder(name, folder, 0o700, (entry.pw_uid, entry.pw_gid)))
    except OSError as error:
        words = "the folder for temporary files of the pool, %s/%s/%s, could not be created: %s"
        raise Refusal("failed", words % (ABOVE, FOLDER, name, error.strerror)) from error
    finally:
        os.close(folder)


def remove(name: str) -> None:
    """Remove the folder for temporary files of the pool `name`, with its content, if it exists."""
    if not os.path.isdir(os.path.join(ABOVE, FOLDER)):  # a host may have lost it, for example with its packages
        return
    folder = _ours()
    try:
        safe.remove_tree(name, folder)
    finally:
        os.close(folder)


def _ours() -> int:
    """Return a descriptor of the folder that contains the folders of all pools. Other accounts can enter this folder,
    but not list it.
    """
    try:
        above = os.open(safe.true_path(ABOVE), safe.FOLDER)
    except OSError as error:
        words = "%s cannot be opened (%s). Debian's package php-common creates this folder"
        raise Refusal("refused", words % (ABOVE, error.strerror), path=ABOVE) from error
    try:
        try:
            return safe.new_folder(FOLDER, above, 0o711)
        except FileExistsError:
            folder = os.open(FOLDER, safe.FOLDER, dir_fd=above)
        try:
            safe.require_own(folder, "%s/%s" % (ABOVE, FOLDER))
        except BaseException:
            os.close(folder)
            raise
        return folder
    finally:
        os.close(above)
