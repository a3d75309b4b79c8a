"""Exchange the names of two folders in one step, so that each request finds one of them (renameat2(2), Linux 3.15)."""

from __future__ import annotations

import ctypes
import errno
import os

_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
# A libc without the function, a kernel without the call, or a file system that cannot exchange.
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


def exchange(one: str, one_folder: int, two: str, two_folder: int) -> bool:
    """Exchange the names of two entries, files or folders, each in an open folder. Return True if this was one atomic
    step.

    On a file system without an atomic exchange, three renames are needed, and the name `two` does not exist for a
    moment; the result is then False. Raises OSError if the kernel refuses the exchange or a rename.
    """
    number = _renameat2(one, one_folder, two, two_folder)
    if not number:
        return True
    if number not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number), one)
    between = one + ".between"
    os.rename(two, between, src_dir_fd=two_folder, dst_dir_fd=one_folder)
    os.rename(one, two, src_dir_fd=one_folder, dst_dir_fd=two_folder)
    os.rename(between, one, src_dir_fd=one_folder, dst_dir_fd=one_folder)
    return False


def _renameat2(one: str, one_folder: int, two: str, two_folder: int) -> int:
    """Call renameat2(2) with RENAME_EXCHANGE; return the error number, 0 for success."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return errno.ENOSYS
    done = call(one_folder, os.fsencode(one), two_folder, os.fsencode(two), _EXCHANGE)
    return ctypes.get_errno() if done else 0
