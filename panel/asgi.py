"""ASGI entry point of the web process, with limits of request bodies."""

import os

from django.core.asgi import get_asgi_application

from panel.core.database import wait_briefly
from panel.core.garbage import collect_only_new
from panel.core.open_files import limit_raise

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")

limit_raise()
_application = get_asgi_application()

from panel.api.bodies import BodyLimit  # noqa: E402 - it has models, which need the settings first

application = BodyLimit(_application)
wait_briefly()
collect_only_new()
