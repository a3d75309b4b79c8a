"""Serializers of sites and their parts. Fields are those of the models; private keys are write-only."""

from __future__ import annotations

import datetime as dt
from typing import Any, TypedDict

from rest_framework import serializers

from panel.api.serializers import (
    StrictModelSerializer,
    StrictSerializer,
    TagsListField,
    TeamField,
    names_or_tags,
    refuse_tags_unless,
)
from panel.audit.services import SECRET
from panel.websites import field_names
from panel.websites.listing import health_of
from panel.websites.models import (
    Certificate,
    Listen,
    Location,
    PhpPool,
    RawSnippet,
    ServerBlock,
    Site,
    Upstream,
    UpstreamServer,
)
from panel.websites.presets import PRESETS
from panel.websites.selectors import certificates_visible, sites_visible

_KEPT = ["id", "created_at", "updated_at"]


class Observation(TypedDict):
    """Health of a site. `state`: `answering`, `failing`, or empty if unknown now; `at`: time of the last check."""

    state: str
    words: str
    at: dt.datetime | None
    since: dt.datetime | None


def _observation(site: Site, observer: str) -> Observation | None:
    state = getattr(site, "state", None)
    if state is None or state.revision_id is None:
        return None
    at, since, words = (getattr(state, f"{observer}_{name}") for name in ("at", "since", "words"))
    value = health_of(site) if observer == "health" else getattr(state, observer)
    return Observation(state=value, words=words, at=at, since=since)


class SiteSerializer(serializers.ModelSerializer[Site]):
    """Summary of a site; its whole desired state is at `definition/`."""

    team = serializers.CharField(source="team.slug", read_only=True)
    web_server = serializers.IntegerField(source="web_server_id", read_only=True, allow_null=True)
    host = serializers.SerializerMethodField()
    engine = serializers.SerializerMethodField()
    domains = serializers.SerializerMethodField()
    status = serializers.SerializerMethodField()
    observed_by_host = serializers.SerializerMethodField()
    observed_by_panel = serializers.SerializerMethodField()
    tags = TagsListField(read_only=True)

    class Meta:
        model = Site
        fields = [
            "id",
            "name",
            "team",
            "web_server",
            "host",
            "engine",
            "enabled",
            "domains",
            "status",
            "observed_by_host",
            "observed_by_panel",
            "health_path",
            "health_status",
            "health_text",
            "health_header",
            "watched_from_panel",
            "cache_mb",
            "notes",
            "tags",
            "created_at",
            "updated_at",
        ]

    def get_host(self, site: Site) -> str | None:
        return site.web_server.host.name if site.web_server else None

    def get_engine(self, site: Site) -> str | None:
        return site.web_server.engine if site.web_server else None

    def get_domains(self, site: Site) -> list[str]:
        return [name.name for block in site.blocks.all() for name in block.names.all()]

    def get_status(self, site: Site) -> str:
        state = getattr(site, "state", None)
        return str(state.status) if state else "draft"

    def get_observed_by_host(self, site: Site) -> Observation | None:
        """Health page as the site's own host last received it; null if the site is not deployed."""
        return _observation(site, "health")

    def get_observed_by_panel(self, site: Site) -> Observation | None:
        """Health page as the panel last received it; null if the site is not deployed."""
        return _observation(site, "reach")


class SiteChange(StrictSerializer):
    name = serializers.CharField(max_length=63, required=False)
    team = TeamField(required=False)
    web_server = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    health_path = serializers.CharField(max_length=300, required=False)
    health_status = serializers.IntegerField(
        min_value=100,
        max_value=599,
        required=False,
        allow_null=True,
        help_text="The expected status of the health page; null accepts every status below 400.",
    )
    health_text = serializers.CharField(
        max_length=200, required=False, allow_blank=True, help_text="Text that the health page must contain."
    )
    health_header = serializers.CharField(
        max_length=300,
        required=False,
        allow_blank=True,
        help_text="A header that Paddock sends to the health page, for example `X-Check: paddock`. Not for secrets.",
    )
    watched_from_panel = serializers.BooleanField(
        required=False,
        help_text="False if the panel does not request the health page at the host's address every 30 seconds.",
    )
    cache_mb = serializers.IntegerField(min_value=1, max_value=1048576, required=False)
    notes = serializers.CharField(required=False, allow_blank=True)
    tags = TagsListField(required=False)


class QuickSite(StrictSerializer):
    """A new site from a few values: files below `root`, or a proxy for `upstream`."""

    team = TeamField()
    name = serializers.CharField(max_length=63)
    domains = serializers.ListField(child=serializers.CharField(max_length=253), allow_empty=True)
    web_server = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    port = serializers.IntegerField(required=False, min_value=1, max_value=65535)
    address = serializers.CharField(required=False, allow_blank=True, max_length=45)
    root = serializers.CharField(required=False, allow_blank=True, max_length=500)  # type: ignore[assignment]
    upstream = serializers.CharField(required=False, allow_blank=True, max_length=300)
    certificate = serializers.CharField(required=False, max_length=63)
    health_path = serializers.CharField(required=False, max_length=300)
    notes = serializers.CharField(required=False, allow_blank=True)
    tags = TagsListField(required=False)


class PresetSite(StrictSerializer):
    """A new site from a preset, which needs some of `root`, `php_address`, `upstream`, and `redirect_to`."""

    preset = serializers.ChoiceField(choices=list(PRESETS))
    team = TeamField()
    name = serializers.CharField(max_length=63)
    domains = serializers.ListField(child=serializers.CharField(max_length=253), allow_empty=True)
    web_server = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    port = serializers.IntegerField(required=False, min_value=1, max_value=65535)
    certificate = serializers.CharField(required=False, max_length=63)
    ipv6 = serializers.BooleanField(required=False, default=False, help_text="Listen on IPv6 as well.")
    root = serializers.CharField(  # type: ignore[assignment]
        required=False,
        allow_blank=True,
        max_length=500,
        help_text="Folder of the files; empty: a folder with the site's name in the host's first site folder.",
    )
    php_address = serializers.CharField(required=False, max_length=300, help_text="Address of a running PHP pool.")
    upstream = serializers.CharField(required=False, max_length=300, help_text="Address of the application.")
    redirect_to = serializers.CharField(
        required=False, max_length=900, help_text="URL; the request path is appended unless it ends in /."
    )


class CloneInput(StrictSerializer):
    name = serializers.CharField(max_length=63)
    domains = serializers.ListField(child=serializers.CharField(max_length=253), required=False, allow_null=True)
    web_server = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, help_text="null keeps the original's web server."
    )
    port = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=65535,
        help_text="HTTP port of the copy. null keeps the original's port.",
    )


class MoveInput(StrictSerializer):
    web_server = serializers.IntegerField(min_value=1)
    php_version = serializers.CharField(max_length=5, default="", allow_blank=True)


class ProblemOfSite(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    detail = serializers.CharField()


class FindingSerializer(serializers.Serializer[Any]):
    """A warning: a known mistake in the draft. `fix` describes the effect of `fix/`; empty if there is no automatic
    fix.
    """

    code = serializers.CharField()
    pointer = serializers.SerializerMethodField()
    what = serializers.CharField()
    why = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)
    is_raw = serializers.BooleanField(help_text="The fix changes raw directives, so only administrators can apply it.")

    def get_pointer(self, finding: Any) -> str:
        return f"/{finding.where}"


class FixInput(StrictSerializer):
    code = serializers.CharField(max_length=60)
    pointer = serializers.CharField(max_length=200)


class BulkInput(StrictSerializer):
    action = serializers.ChoiceField(choices=["enable", "disable", "move", "take-off", "tag"])
    sites = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000, required=False
    )
    sites_tagged = TagsListField(
        allow_empty=False, required=False, help_text="Use instead of `sites`: selects all sites with these tags."
    )
    web_server = serializers.IntegerField(min_value=1, required=False, help_text="The new web server, only for `move`.")

    add = TagsListField(required=False, help_text="Only for `tag`.")
    remove = TagsListField(required=False, help_text="Only for `tag`.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        names_or_tags(attrs, "sites", "sites_tagged", "sites")
        refuse_tags_unless(attrs, "tag")
        if (attrs["action"] == "move") != ("web_server" in attrs):
            raise serializers.ValidationError({"web_server": "Set the new web server for `move`, and only for `move`."})
        return attrs


# --- parts ---


class OfSite(serializers.SlugRelatedField[Site]):
    """Field that refers to a site by name, among the sites that the caller can see."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", **kwargs)

    def get_queryset(self) -> Any:
        return sites_visible(self.context["request"].user)


class ListenSerializer(StrictModelSerializer):
    class Meta:
        model = Listen
        fields = ["address", "port", "tls", "http2", "http3", "default_server"]


class OfCertificate(serializers.SlugRelatedField[Certificate]):
    def get_queryset(self) -> Any:
        return certificates_visible(self.context["request"].user)


class _Names(serializers.ListField):
    """Field with the server names of a block, in their order."""

    child = serializers.CharField(max_length=253)

    def to_representation(self, data: Any) -> list[str]:
        return [row.name for row in data.all()]


class BlockSerializer(StrictModelSerializer):
    site = OfSite()
    listens = ListenSerializer(many=True)
    names = _Names()
    certificate = OfCertificate(slug_field="name", allow_null=True, required=False)

    class Meta:
        model = ServerBlock
        fields = [
            "id",
            "site",
            "position",
            "listens",
            "names",
            *field_names.BLOCK,
            "created_at",
            "updated_at",
        ]
        read_only_fields = [*_KEPT, "position"]


class _Upstream(serializers.SlugRelatedField[Upstream]):
    """Field that refers to an upstream of the location's site by name."""

    def get_queryset(self) -> Any:
        return self.context["site"].upstreams.all()


class _Pool(serializers.SlugRelatedField[PhpPool]):
    """Field that refers to a PHP pool of the location's site by name."""

    def get_queryset(self) -> Any:
        return self.context["site"].php_pools.all()


class LocationSerializer(StrictModelSerializer):
    block = serializers.IntegerField(source="block_id", read_only=True)
    upstream = _Upstream(slug_field="name", allow_null=True, required=False)
    php_pool = _Pool(slug_field="name", allow_null=True, required=False)

    class Meta:
        model = Location
        fields = [
            "id",
            "block",
            "position",
            *field_names.LOCATION,
            "created_at",
            "updated_at",
        ]
        read_only_fields = [*_KEPT, "position"]

    def to_representation(self, instance: Location) -> dict[str, Any]:
        data = super().to_representation(instance)
        if "basic_auth_users" in data:
            data["basic_auth_users"] = dict.fromkeys(instance.basic_auth_users, SECRET)
        return data


class LocationOrder(StrictSerializer):
    order = serializers.ListField(child=serializers.IntegerField(min_value=1), max_length=10_000)


class UpstreamServerSerializer(StrictModelSerializer):
    class Meta:
        model = UpstreamServer
        fields = field_names.SERVER


class UpstreamSerializer(StrictModelSerializer):
    site = OfSite()
    servers = UpstreamServerSerializer(many=True, required=False)
    host_tags = TagsListField(
        required=False,
        help_text="The servers are the hosts with all of these tags; `servers` only gives their options.",
    )

    class Meta:
        model = Upstream
        fields = [
            "id",
            "site",
            "name",
            "balancing",
            "keepalive",
            "host_tags",
            "host_port",
            "servers",
            "created_at",
            "updated_at",
        ]
        read_only_fields = _KEPT


class PhpPoolSerializer(StrictModelSerializer):
    site = OfSite()

    class Meta:
        model = PhpPool
        fields = ["id", "site", "name", "address", "settings", "created_at", "updated_at"]
        read_only_fields = _KEPT


class SnippetSerializer(StrictModelSerializer):
    site = OfSite()

    class Meta:
        model = RawSnippet
        fields = ["id", "site", "engine", "block", "location", "text", "created_at", "updated_at"]
        read_only_fields = _KEPT


# --- certificates ---
