"""Access lists as JSON."""

from __future__ import annotations

from functools import cached_property

from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TeamField
from panel.websites.models import AccessList, Site
from panel.websites.selectors import sites_of_access_lists

SOURCES = "Addresses and networks: 192.0.2.7, 10.0.0.0/8, 2001:db8::/32."


class AccessListSerializer(serializers.ModelSerializer[AccessList]):
    """Addresses and networks that access rules of the team's sites name as `@name`."""

    team = serializers.CharField(source="team.slug", read_only=True)
    sources = serializers.ListField(child=serializers.CharField(), read_only=True)
    sites = serializers.SerializerMethodField(help_text="Names of the sites whose access rules name the list.")

    class Meta:
        model = AccessList
        fields = ["id", "name", "team", "sources", "sites", "created_at", "updated_at"]

    def get_sites(self, row: AccessList) -> list[str]:
        return [site.name for site in self._sites[row.name]]

    @cached_property
    def _sites(self) -> dict[str, list[Site]]:
        """Sites by the name of their list, read together for all lists of the response."""
        rows = [self.instance] if self.parent is None else self.parent.instance
        return sites_of_access_lists(rows)  # type: ignore[arg-type] # the stubs know neither


class AccessListChange(StrictSerializer):
    sources = serializers.ListField(child=serializers.CharField(max_length=50), help_text=SOURCES)


class AccessListInput(AccessListChange):
    team = TeamField()
    name = serializers.CharField(max_length=63)
