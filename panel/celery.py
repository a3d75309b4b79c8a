"""The Celery application; tasks are in each app's tasks.py."""

import os
import threading

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from panel.core.open_files import limit_raise

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
# Django's checks would load every page and the API, 34 MB that no task needs; `migrate` has already run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

STOP_WITHIN_S = 8.0

limit_raise()
app = Celery("paddock")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def sweep_at_start(**_: object) -> None:
    """Take over jobs of a killed worker immediately, without waiting for the scheduler's next sweep."""
    for name, entry in app.conf.beat_schedule.items():
        if name.startswith("sweep-"):
            app.send_task(entry["task"])


@worker_shutting_down.connect
def leave_in_time(**_: object) -> None:
    """End the process even if a host hangs. Unfinished jobs stay claimed by this process; the next worker notices that
    it is gone, takes them over and asks the hosts for the results.
    """
    timer = threading.Timer(STOP_WITHIN_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
