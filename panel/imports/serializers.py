"""Serializers for imports and the sites found in them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TeamField
from panel.imports import services
from panel.imports.models import Import
from panel.imports.report import OUTCOMES
from panel.imports.selectors import Row, rows_of

# Base64 has four characters for three bytes; the limit is slightly above that of archives, which has a better error
# message.
MAX_BASE64 = 24 * 1024 * 1024


class ImportSerializer(serializers.ModelSerializer[Import]):
    host = serializers.CharField(source="web_server.host.name", read_only=True)
    engine = serializers.CharField(source="web_server.engine", read_only=True)
    web_server = serializers.IntegerField(source="web_server_id", read_only=True)
    adopted = serializers.DictField(
        child=serializers.IntegerField(),
        read_only=True,
        help_text="IDs of the created sites, by the name that Paddock found.",
    )
    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None, allow_null=True)

    class Meta:
        model = Import
        fields = [
            "uuid",
            "host",
            "web_server",
            "engine",
            "source",
            "filename",
            "sites_found",
            "faults_found",
            "adopted",
            "created_at",
            "created_by",
        ]


class CountsSerializer(serializers.Serializer[Any]):
    """Numbers of directives by outcome: `mapped` and `changed` have an equivalent setting in the site, `snippet` are
    kept as raw directives, `refused` would be dropped, `kept` stay in the server's own files.
    """

    mapped = serializers.IntegerField()
    changed = serializers.IntegerField()
    snippet = serializers.IntegerField()
    refused = serializers.IntegerField()
    kept = serializers.IntegerField()


class FaultSerializer(serializers.Serializer[Any]):
    file = serializers.CharField()
    line = serializers.IntegerField(help_text="Number of the line; 0 for the whole file.")
    message = serializers.CharField()


class ItemSerializer(serializers.Serializer[Any]):
    """One directive of an imported configuration and its outcome."""

    file = serializers.CharField()
    line = serializers.IntegerField()
    text = serializers.CharField(allow_blank=True)
    outcome = serializers.ChoiceField(choices=[(name, name) for name in OUTCOMES])
    note = serializers.CharField(allow_blank=True)
    where = serializers.CharField(allow_blank=True, help_text="JSON pointer to the place in the site's definition.")


class FoundSiteSerializer(serializers.Serializer[Row]):
    name = serializers.CharField(source="found.name")
    enabled = serializers.BooleanField(
        source="found.enabled", help_text="False if the web server does not load the file of the site."
    )
    domains = serializers.ListField(child=serializers.CharField())
    places = serializers.ListField(
        child=serializers.CharField(), help_text="File and line (file:line) of each server block of the site."
    )
    counts = CountsSerializer()
    folders = serializers.ListField(source="found.folders", child=serializers.CharField())
    problems = serializers.ListField(source="found.problems", child=serializers.CharField())
    site = serializers.SerializerMethodField(help_text="Name of the adopted site.")

    def get_site(self, row: Row) -> str | None:
        return row.site.name if row.site else None


class FoundSiteDetailSerializer(FoundSiteSerializer):
    """A site found in an import. `definition` is the input of POST /sites/ when the site is adopted."""

    definition = serializers.DictField(source="found.definition")
    items = ItemSerializer(source="found.items", many=True)


class ImportDetailSerializer(ImportSerializer):
    files = serializers.SerializerMethodField()
    sites = serializers.SerializerMethodField()
    faults = serializers.SerializerMethodField()

    class Meta(ImportSerializer.Meta):
        fields = [*ImportSerializer.Meta.fields, "files", "faults", "sites"]

    def get_files(self, record: Import) -> int:
        return services.report_of(record).files

    @extend_schema_field(FoundSiteSerializer(many=True))
    def get_sites(self, record: Import) -> Any:
        rows: Any = rows_of(record, services.report_of(record))
        return FoundSiteSerializer(rows, many=True).data

    @extend_schema_field(FaultSerializer(many=True))
    def get_faults(self, record: Import) -> Any:
        return FaultSerializer(services.report_of(record).faults, many=True).data


class ReadInput(StrictSerializer):
    web_server = serializers.IntegerField(min_value=1, help_text="The web server whose live configuration is read.")


class UploadInput(ReadInput):
    filename = serializers.CharField(max_length=200)
    archive = serializers.CharField(max_length=MAX_BASE64, help_text="A zip or tar archive, in Base64 (RFC 4648).")


class AdoptSitesInput(StrictSerializer):
    sites = serializers.ListField(child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000)
    team = TeamField()
    accept_refused = serializers.BooleanField(required=False, default=False)
    add_folders = serializers.BooleanField(required=False, default=False)


class AdoptedSerializer(serializers.Serializer[Any]):
    sites = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="Notes about the import, as sentences.")
