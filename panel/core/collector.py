"""Python's and the C library's memory, told what a long-lived process of the panel is like."""

from __future__ import annotations

import ctypes
import gc

# Objects made and not freed before the youngest are looked through; Python's own is 700, which one page of the ORM's
# rows reaches several times.
YOUNG = 10_000
# So many looks through the young before the old: what a deployment to 50 hosts leaves in circles is a few megabytes.
OLD_AFTER = (3, 3)
_M_ARENA_MAX = -8  # mallopt(3)


def settle() -> None:
    """To be called once, when a process has imported what it needs: that lives for ever, and is not looked through
    again at every collection: about a tenth of the panel's own CPU in a deployment to 50 hosts."""
    _one_arena()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *OLD_AFTER)


def _one_arena() -> None:
    """glibc gives up to eight heaps for each CPU to threads that allocate at once. Python's do not, and a hundred that
    wait for their hosts in turn keep tens of megabytes in holes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
