"""Python's and the C library's memory, told what a long-lived process of the panel is like."""

from __future__ import annotations

import ctypes
import gc

# Objects made and not freed before the youngest are looked through; Python's own is 700, which one page of the ORM's
# rows reaches several times.
YOUNG = 5_000
# So many looks through the young before the old. A deployment to 50 hosts, which leaves next to nothing in circles
# (websites.freeze.parts_forget), then has the old looked through once in three times and not every time: 10 ms each.
OLD_AFTER = (2, 3)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
LARGE_BYTES = 256 * 1024


def settle() -> None:
    """To be called once, when a process has imported what it needs: that lives for ever, and is not looked through
    again at every collection: about a tenth of the panel's own CPU in a deployment to 50 hosts."""
    gc.collect()
    gc.freeze()
    _one_heap()
    gc.set_threshold(YOUNG, *OLD_AFTER)


def _one_heap() -> None:
    """glibc gives up to eight heaps for each CPU to threads that allocate at once. Python's do not, and a hundred that
    wait for their hosts in turn keep tens of megabytes in holes. What is large is given back when it is freed: once a
    program has freed something of 14 MB (checking a password does), glibc would keep all that is smaller."""
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)  # other C libraries have none
    if mallopt is None:
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, LARGE_BYTES)
