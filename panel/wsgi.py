"""WSGI entry point of the web process."""

import os

from django.core.wsgi import get_wsgi_application

from panel.core.database import wait_briefly

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")

application = get_wsgi_application()
wait_briefly()
