"""Serializers of shared settings: access lists, header sets, directive sets."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TeamField
from panel.hosts.models import Engine
from panel.websites.models import AccessList, DirectiveSet, HeaderSet, SharedSetting, Site
from panel.websites.selectors import sites_of_shared_settings

SOURCES = "Addresses and networks: 192.0.2.7, 10.0.0.0/8, 2001:db8::/32."
HEADERS = (
    "Headers, each with `name`, `value`, and optionally `always` (true by default: error responses have "
    "the header too)."
)
_FIELDS = ["id", "name", "team", "sites", "created_at", "updated_at"]


class _SharedSettingSerializer(serializers.ModelSerializer[Any]):
    team = serializers.CharField(source="team.slug", read_only=True)
    sites = serializers.SerializerMethodField(help_text="Names of the sites that use the setting.")

    def get_sites(self, row: SharedSetting) -> list[str]:
        return [site.name for site in self._sites[row.name]]

    @cached_property
    def _sites(self) -> dict[str, list[Site]]:
        """Return {setting name: sites that use the setting}, loaded once for all settings of the response."""
        rows: Any = [self.instance] if self.parent is None else self.parent.instance
        return sites_of_shared_settings(self.Meta.model, rows)


class HeaderField(StrictSerializer):
    name = serializers.CharField(max_length=200)
    value = serializers.CharField(max_length=4000, allow_blank=True)
    always = serializers.BooleanField(default=True)


class AccessListSerializer(_SharedSettingSerializer):
    """Addresses and networks under a name, which access rules of the team's sites use by writing `@name`."""

    sources = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = AccessList
        fields = [*_FIELDS, "sources"]


class AccessListChange(StrictSerializer):
    sources = serializers.ListField(child=serializers.CharField(max_length=50), help_text=SOURCES)


class AccessListInput(AccessListChange):
    team = TeamField()
    name = serializers.CharField(max_length=63)


class HeaderSetSerializer(_SharedSettingSerializer):
    """Response headers under a name, which server blocks and locations of the team's sites use by writing `@name`."""

    headers = HeaderField(many=True, read_only=True)

    class Meta:
        model = HeaderSet
        fields = [*_FIELDS, "headers"]


class HeaderSetChange(StrictSerializer):
    headers = HeaderField(many=True, help_text=HEADERS)


class HeaderSetInput(HeaderSetChange):
    team = TeamField()
    name = serializers.CharField(max_length=63)


class DirectiveSetSerializer(_SharedSettingSerializer):
    """Raw directives under a name, which raw directives of the team's sites include by a line `@name`."""

    class Meta:
        model = DirectiveSet
        fields = [*_FIELDS, "engine", "text"]


class DirectiveSetChange(StrictSerializer):
    text = serializers.CharField(help_text="Directives in the syntax of the web server.", trim_whitespace=False)


class DirectiveSetInput(DirectiveSetChange):
    team = TeamField()
    name = serializers.CharField(max_length=63)
    engine = serializers.ChoiceField(choices=Engine.choices, help_text="The web server that reads the directives.")
