"""Serializers of releases and publications."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer
from panel.imports.sources import MAX_ARCHIVE_BYTES
from panel.publishing.models import Publication, Release

MAX_BASE64 = MAX_ARCHIVE_BYTES * 4 // 3 + 4
_SOURCES = ("archive", "release", "git_url")


class ReleaseSerializer(serializers.ModelSerializer[Release]):
    """Files of a site at one time. Sizes are in bytes."""

    site = serializers.CharField(source="site.name", read_only=True)
    notes = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Notes about the publication, as sentences."
    )
    created_by = serializers.CharField(source="created_by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Release
        fields = [
            *("id", "site", "number", "source", "origin", "revision", "folder", "sha256", "size", "unpacked_size"),
            *("file_count", "notes", "created_at", "created_by"),
        ]


class PublicationTargetSerializer(serializers.Serializer[object]):
    """Outcome of a publication on one host."""

    site = serializers.CharField()
    host = serializers.CharField()
    folder = serializers.CharField()
    state = serializers.ChoiceField(choices=["waiting", "prepared", "published", "returned", "failed"])
    words = serializers.CharField()
    replaced = serializers.CharField(
        help_text="Name of the former folder in the folder where the agent keeps former content on the host."
    )
    serves = serializers.ChoiceField(
        choices=["release", "other", "unknown"],
        required=False,
        help_text=(
            "Content of the host when the publication ended: a release, files that Paddock did not publish, or "
            "no response. Missing until the publication ends."
        ),
    )
    release = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="Number of the release on the host; null if the panel no longer has this release.",
    )


class PublicationSerializer(serializers.ModelSerializer[Publication]):
    """The publication of a release on all hosts of a site."""

    site = serializers.CharField(source="site.name", read_only=True)
    release = serializers.IntegerField(source="release.number", read_only=True, allow_null=True, default=None)
    keep = serializers.ListField(child=serializers.CharField(), read_only=True)
    targets = serializers.SerializerMethodField()
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Publication
        fields = [
            *(
                "uuid",
                "site",
                "release",
                "git_url",
                "git_ref",
                "folder",
                "above",
                "keep",
                "replace",
                "web_server",
                "status",
                "error",
            ),
            *("targets", "requested_by", "created_at", "started_at", "finished_at"),
        ]

    @extend_schema_field(PublicationTargetSerializer(many=True))
    def get_targets(self, publication: Publication) -> list[dict[str, object]]:
        return [_shown(target) for target in publication.targets]


def _shown(target: dict[str, object]) -> dict[str, object]:
    """Return the outcome on one host without internal fields, and before the end without `serves` and `release`."""
    hidden = {"is_asked"} if target.get("serves") else {"is_asked", "serves", "release"}
    return {name: value for name, value in target.items() if name not in hidden}


class PublicationInput(StrictSerializer):
    """Input of a publication. Exactly one of `archive`, `release` and `git_url` is required."""

    site = serializers.CharField(max_length=63)
    archive = serializers.CharField(
        required=False, max_length=MAX_BASE64, help_text="A zip or tar archive of at most 16 MiB, in Base64 (RFC 4648)."
    )
    filename = serializers.CharField(required=False, max_length=200, default="archive")
    release = serializers.IntegerField(
        required=False, min_value=1, help_text="Number of an earlier release of the site."
    )
    git_url = serializers.CharField(
        required=False,
        max_length=500,
        help_text="URL of a git repository, for example https://git.example.com/shop.git.",
    )
    git_ref = serializers.CharField(
        required=False,
        max_length=200,
        allow_blank=True,
        help_text="Branch, tag, or commit; empty for the default branch.",
    )
    git_token = serializers.CharField(
        required=False,
        max_length=500,
        write_only=True,
        help_text="Access token for a private repository; Paddock does not store the token.",
    )
    folder = serializers.CharField(
        required=False,
        max_length=300,
        allow_blank=True,
        default="",
        help_text="Folder in the archive or repository to publish; empty for everything.",
    )
    above = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=1,
        default=0,
        help_text="0 replaces the document root; 1 replaces the folder above the document root, for applications.",
    )
    keep = serializers.ListField(
        child=serializers.CharField(max_length=300),
        required=False,
        help_text="Paths in the folder that stay unchanged on the hosts.",
    )
    web_server = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text=(
            "ID of a web server. Publishes only on the host of this web server, before you move the site to "
            "the web server."
        ),
    )
    replace = serializers.BooleanField(
        required=False, default=False, help_text="True also replaces files that Paddock did not publish."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(name in attrs for name in _SOURCES) != 1:
            raise serializers.ValidationError(
                {"archive": "Send exactly one of the fields archive, release, and git_url."}
            )
        return attrs
