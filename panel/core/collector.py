"""Python's cyclic garbage collector, told what a long-lived process of the panel is like."""

from __future__ import annotations

import gc

# Objects made and not freed before the youngest are looked through; Python's own is 700, which one page of the ORM's
# rows reaches several times.
YOUNG = 10_000


def settle() -> None:
    """To be called once, when a process has imported what it needs: that lives for ever, and is not looked through
    again at every collection: about a tenth of the panel's own CPU in a deployment to 50 hosts."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
