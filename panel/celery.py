"""The Celery application; tasks live in each app's tasks.py."""

import os
import sys

# kombu would load YAML, a megabyte, in case that a message were written in it; the API's schema has it all the same.
if "yaml" not in sys.modules:
    sys.modules["yaml"] = None  # type: ignore[assignment]
    import kombu.serialization  # noqa: F401

    del sys.modules["yaml"]

from celery import Celery
from celery.signals import worker_init
from kombu.transport import TRANSPORT_ALIASES

from panel.core.collector import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
# Django's checks load every page and the API, 34 MB that no task needs; migrating has run them before a worker starts.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

TRANSPORT_ALIASES["filesystem"] = "panel.core.queue:Transport"
app = Celery("paddock")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
worker_init.connect(lambda **_: settle(), weak=False)
