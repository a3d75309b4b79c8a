"""API views of drift, with the action `adopt-settings`, which needs the importer."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.base import require_sudo
from panel.api.serializers import EmptySerializer
from panel.deployments.api.deployments import Drifts as DeployedDrifts
from panel.imports.edits import services
from panel.websites.serializers.sites import SiteSerializer


class Drifts(DeployedDrifts):
    """Managed files that were edited on a host."""

    dry_run_actions = DeployedDrifts.dry_run_actions | {"adopt_settings"}

    @extend_schema(request=EmptySerializer, responses=SiteSerializer)
    @action(detail=True, methods=["post"], url_path="adopt-settings")
    def adopt_settings(self, request: Request, pk: str = "") -> Response:
        """Change the settings of the site to match the edited file. Administrators only.

        Refused if the settings would not produce exactly the edited directives. In that case use `adopt`, which keeps
        the edited file as text.
        """
        drift = self.get_object()
        if request.auth is None:
            require_sudo(request, "adopt raw directives")
        site = services.edit_adopt(actor=self.actor, drift=drift)
        return Response(SiteSerializer(site, context=self.get_serializer_context()).data)
