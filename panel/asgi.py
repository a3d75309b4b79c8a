"""The ASGI entry point of the web process."""

import os

from django.core.asgi import get_asgi_application

from panel.core.collector import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")

application = get_asgi_application()
settle()
