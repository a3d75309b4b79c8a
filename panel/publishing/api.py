"""REST endpoints of releases and publications."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, base64_decoded, one
from panel.publishing import services
from panel.publishing.models import Publication, Release
from panel.publishing.selectors import publications_visible, releases_visible
from panel.publishing.serializers import PublicationInput, PublicationSerializer, ReleaseSerializer
from panel.publishing.services import Choices, GitSource
from panel.websites.api.sites import web_server_named
from panel.websites.models import Site
from panel.websites.selectors import sites_visible


class Releases(Resource):
    """Releases of the content of sites. Paddock keeps the newest five releases of each site, and its live release."""

    model = Release
    serializer_class = ReleaseSerializer
    filter_fields = {"site__name": ["exact", "in"], "source": ["exact"]}
    ordering_fields = ("id", "created_at")
    ordering = "-id"

    def rows(self) -> QuerySet[Release]:
        return releases_visible(self.actor)


class Publications(Resource):
    """Publications of releases.
    A publication replaces the folder of a site's files on all hosts of the site, or on none.
    """

    model = Publication
    serializer_class = PublicationSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.DEPLOY
    filter_fields = {"site__name": ["exact", "in"], "status": ["exact", "in"]}
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create"}

    def rows(self) -> QuerySet[Publication]:
        return publications_visible(self.actor)

    @extend_schema(request=PublicationInput, responses={202: PublicationSerializer})
    def create(self, request: Request) -> Response:
        """Publish an archive, a revision of a git repository, or an earlier release of a live site.

        The request is rejected if the folder has files that Paddock did not publish, unless `keep` lists them
        or `replace` is true.
        """
        values = self.body(PublicationInput)
        site = one(sites_visible(self.actor), "name", values.pop("site"), "/site")
        web_server = web_server_named(self.actor, values.get("web_server"))
        choices = Choices(values["above"], values.get("keep", ()), values["replace"], web_server)
        if "archive" in values:
            publication = services.archive_publish(
                actor=self.actor,
                site=site,
                archive=io.BytesIO(base64_decoded(values["archive"], "/archive")),
                filename=values["filename"],
                folder=values["folder"],
                choices=choices,
            )
        else:
            publication = services.publication_request(
                actor=self.actor, site=site, source=self._source(site, values), choices=choices
            )
        headers = {"Location": f"/api/v1/publications/{publication.uuid}/"}
        return Response(PublicationSerializer(publication).data, status=202, headers=headers)

    def _source(self, site: Site, values: Mapping[str, Any]) -> Release | GitSource:
        if "release" in values:
            rows = releases_visible(self.actor).filter(site=site)
            found: Release = one(rows, "number", values["release"], "/release")
            return found
        return GitSource(values["git_url"], values.get("git_ref", ""), values.get("git_token", ""), values["folder"])
