"""API action on web servers: manage the main file, or restore the distribution's original."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.serializers import StrictSerializer
from panel.deployments.api.deployments import plans_answer
from panel.deployments.main_file.services import main_plan
from panel.deployments.serializers import DeploymentDetailSerializer
from panel.hosts.api import WebServers


class MainFileInput(StrictSerializer):
    managed = serializers.BooleanField(
        help_text="True if Paddock manages the main file; false restores the distribution's original."
    )


class DeployableWebServers(WebServers):
    """Web servers (nginx, Apache httpd, OpenLiteSpeed, gallop) on hosts."""

    dry_run_actions = WebServers.dry_run_actions | {"main_file"}

    @extend_schema(request=MainFileInput, responses={201: DeploymentDetailSerializer(many=True)})
    @action(detail=True, methods=["post"], url_path="main-file")
    def main_file(self, request: Request, pk: str = "") -> Response:
        """Plan to manage the main file (nginx.conf) of an nginx from the distribution's packages, or to restore the
        original file. `main_files` of the web server lists the managed files.
        """
        managed = self.body(MainFileInput)["managed"]
        return plans_answer(self, [main_plan(actor=self.actor, web_server=self.get_object(), managed=managed)])
