"""`manage.py stop_idle_servers`: stop the panel's own web servers without sites; the last step of `make run`."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from panel.core.errors import ApplicationError
from panel.deployments.models import DEPLOYED, SiteState
from panel.hosts.jobs import server_told
from panel.hosts.models import Connection, WebServer


class Command(BaseCommand):
    help = "Stop the panel's own web servers on this host that serve no site."

    def handle(self, *args: object, **options: object) -> None:
        serving = SiteState.objects.filter(status__in=DEPLOYED).values("revision__web_server")
        web_servers = WebServer.objects.filter(
            host__connection=Connection.LOCAL, manages_main_config=True, is_running=True
        )
        for web_server in web_servers.exclude(pk__in=serving).select_related("host"):
            self._stop(web_server)

    def _stop(self, web_server: WebServer) -> None:
        try:
            server_told(web_server, "stop")
        except ApplicationError as error:
            self.stderr.write(error.message)
