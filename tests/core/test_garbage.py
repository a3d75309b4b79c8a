"""The web process leaves what is loaded at its start out of later garbage collections."""

from __future__ import annotations

import subprocess
import sys

from django.conf import settings

SCRIPT = """
import gc
import panel.asgi
loaded = gc.get_freeze_count()
templates = [[] for _ in range(1000)]
gc.collect()
after_first = gc.get_freeze_count()
more = [[] for _ in range(1000)]
gc.collect()
print(loaded, after_first, gc.get_freeze_count())
"""


def test_web_process_leaves_loaded_objects_out_of_garbage_collections() -> None:
    argv = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(argv, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    loaded, after_first, after_second = map(int, done.stdout.split())
    assert loaded > 100_000, "the modules of the panel have more objects"
    assert after_first >= loaded + 1000, "objects of the time of the first full collection are left out, too"
    assert after_second <= after_first, "later objects are collected as usual"
