"""Serializers for hosts, their web servers and jobs. Keys and passwords are write-only."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rest_framework import serializers

from panel.accounts.permissions import team_keys
from panel.api.serializers import (
    StrictModelSerializer,
    StrictSerializer,
    TagsListField,
    TeamField,
    names_or_tags,
    refuse_tags_unless,
)
from panel.hosts import selectors
from panel.hosts.authorities import user_authorities
from panel.hosts.models import APPLICATIONS, Engine, Host, HostJob, HostJobKind, SshAuthority, WebServer
from panel.hosts.observing import web_server_state
from panel.hosts.rules import NO_ROOTS
from panel.hosts.services.jobs import SERVICE_ACTIONS


class HostSerializer(serializers.ModelSerializer[Host]):
    """A host. `host_key_fingerprint` belongs to the trusted key, `offered_fingerprint` to a key that a user must
    confirm.
    """

    site_roots = serializers.ListField(child=serializers.CharField(), read_only=True)
    tags = TagsListField(read_only=True)
    teams = serializers.SerializerMethodField(
        help_text=("Teams that may use the host. Teams that the caller cannot see are left out. Empty: every team.")
    )
    bastion = serializers.SerializerMethodField(
        help_text=(
            "Name of the bastion, the host that passes SSH connections on to this host; null for none. Only "
            "administrators see the name."
        )
    )
    authority = serializers.SerializerMethodField(
        help_text=(
            "Name of the SSH certificate authority that signs Paddock's keys; null for none. Only "
            "administrators see the name."
        )
    )
    facts = serializers.DictField(read_only=True)
    host_key_fingerprint = serializers.SerializerMethodField()
    offered_fingerprint = serializers.SerializerMethodField()
    has_private_key = serializers.SerializerMethodField()
    has_password = serializers.SerializerMethodField()
    has_sudo_password = serializers.SerializerMethodField()

    class Meta:
        model = Host
        fields = [
            "id",
            "name",
            "connection",
            "address",
            "port",
            "bastion",
            "username",
            "use_sudo",
            "authority",
            "has_private_key",
            "has_password",
            "has_sudo_password",
            "layout",
            "site_roots",
            "tags",
            "teams",
            "status",
            "status_detail",
            "host_key_fingerprint",
            "offered_fingerprint",
            "facts",
            "facts_at",
            "last_seen_at",
            "is_paused",
            "created_at",
            "updated_at",
        ]

    def get_teams(self, host: Host) -> list[str]:
        return sorted(team.slug for team in host.teams.all() if self._own_teams is None or team.pk in self._own_teams)

    def get_bastion(self, host: Host) -> str | None:
        return host.bastion.name if host.bastion and self.context["request"].user.is_admin else None

    def get_authority(self, host: Host) -> str | None:
        return host.authority.name if host.authority and self.context["request"].user.is_admin else None

    @cached_property
    def _own_teams(self) -> set[int] | None:
        """Primary keys of the caller's teams, read once for all hosts of a list; None for administrators."""
        user = self.context["request"].user
        return None if user.is_admin else set(team_keys(user))

    def get_host_key_fingerprint(self, host: Host) -> str:
        return selectors.pinned_fingerprint(host)

    def get_offered_fingerprint(self, host: Host) -> str:
        return selectors.offered_fingerprint(host)

    def get_has_private_key(self, host: Host) -> bool:
        return bool(host.private_key)

    def get_has_password(self, host: Host) -> bool:
        return bool(host.password)

    def get_has_sudo_password(self, host: Host) -> bool:
        return bool(host.sudo_password)


class SshAuthoritySerializer(serializers.ModelSerializer[SshAuthority]):
    """An SSH certificate authority. The API never returns its private key."""

    class Meta:
        model = SshAuthority
        fields = ["id", "name", "kind", "public_key", "created_at"]


class SshAuthorityInput(StrictModelSerializer):
    """SSH certificate authority to add. Enter `public_key` for the kind "host"; for the kind "user", Paddock creates
    it.
    """

    class Meta:
        model = SshAuthority
        fields = ["name", "kind", "public_key"]
        extra_kwargs = {"public_key": {"required": False, "allow_blank": True, "default": ""}}


class HostInput(StrictModelSerializer):
    """Fields of a host. If a new host has no `private_key`, `password` or `authority`, Paddock creates a key;
    `sign-in/` responds with the public key.
    """

    bastion = serializers.SlugRelatedField(
        slug_field="name",
        queryset=selectors.hosts_over_ssh(),
        required=False,
        allow_null=True,
        help_text=(
            "Name of the bastion, the host that passes SSH connections on to this host (ProxyJump); null for none."
        ),
    )
    authority = serializers.SlugRelatedField(
        slug_field="name",
        queryset=user_authorities(),
        required=False,
        allow_null=True,
        help_text="Name of the SSH certificate authority that signs Paddock's keys; null for none.",
    )
    tags = TagsListField(required=False)
    teams = TeamField(
        many=True,
        required=False,
        help_text="Only these teams see and use the host; an empty list lets every team use the host.",
    )

    class Meta:
        model = Host
        fields = [
            "name",
            "address",
            "port",
            "bastion",
            "username",
            "private_key",
            "authority",
            "password",
            "use_sudo",
            "sudo_password",
            "layout",
            "site_roots",
            "tags",
            "teams",
        ]
        extra_kwargs = {
            **{name: {"required": True, "allow_blank": False} for name in ("address", "username")},
            "site_roots": {"required": True, "error_messages": dict.fromkeys(("required", "null"), NO_ROOTS)},
            **{
                name: {"write_only": True, "trim_whitespace": False}
                for name in ("private_key", "password", "sudo_password")
            },
        }


class HostChange(HostInput):
    new_key = serializers.BooleanField(
        required=False,
        help_text="True replaces the private key by a new key; `sign-in/` responds with its public key.",
    )

    class Meta(HostInput.Meta):
        fields = [*HostInput.Meta.fields, "new_key"]


class SignInSerializer(serializers.Serializer[Host]):
    """Paddock's public key for a host, and the shell commands that allow this key on the host."""

    public_key = serializers.SerializerMethodField(
        help_text="Lines for authorized_keys; empty if the host has neither a private key nor an authority."
    )
    sign_in_command = serializers.SerializerMethodField(
        help_text="Command that adds the public key on the host; run it as the host's user."
    )
    sudo_command = serializers.SerializerMethodField(
        help_text="Command that allows sudo without a password; run it as root."
    )
    prepare_command = serializers.SerializerMethodField(
        help_text=(
            "Command that creates the user if necessary, adds the public key, allows sudo, and prints the "
            "host's fingerprints; run it as root."
        )
    )
    forwarding_command = serializers.SerializerMethodField(
        help_text=(
            "Command that lets Paddock's key on a bastion pass connections on; run it as the host's user. "
            "Empty for hosts that are not a bastion."
        )
    )

    def get_public_key(self, host: Host) -> str:
        return selectors.public_key(host)

    def get_sign_in_command(self, host: Host) -> str:
        return selectors.sign_in_command(host)

    def get_sudo_command(self, host: Host) -> str:
        return selectors.sudo_command(host)

    def get_prepare_command(self, host: Host) -> str:
        return selectors.prepare_command(host)

    def get_forwarding_command(self, host: Host) -> str:
        return selectors.forwarding_command(host)


class TrustInput(StrictSerializer):
    fingerprint = serializers.CharField(
        max_length=2000,
        help_text="The host key as shown on the host: SHA256:..., the output of ssh-keygen -l, or the whole key line.",
    )


class AdoptInput(StrictSerializer):
    engine = serializers.ChoiceField(choices=Engine.choices)
    main_config = serializers.CharField(
        max_length=4096, help_text="The path `main_config` of the web server that Paddock should manage."
    )


# Jobs that can be started on many hosts at once.
JOB_KINDS = {
    "check": HostJobKind.CHECK,
    "check-drift": HostJobKind.DRIFT,
    "install-gallop": HostJobKind.INSTALL_NATIVE,
    "replace-key": HostJobKind.ROTATE_KEY,
}


class HostBulkInput(StrictSerializer):
    action = serializers.ChoiceField(choices=[*JOB_KINDS, "pause", "resume", "tag"])
    hosts = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000, required=False
    )
    hosts_tagged = TagsListField(
        allow_empty=False, required=False, help_text="Use instead of `hosts`: selects all hosts with these tags."
    )
    add = TagsListField(required=False, help_text="Only for `tag`.")
    remove = TagsListField(required=False, help_text="Only for `tag`.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        names_or_tags(attrs, "hosts", "hosts_tagged", "hosts")
        refuse_tags_unless(attrs, "tag")
        return attrs


class HostDelete(StrictSerializer):
    confirm = serializers.CharField(max_length=63, help_text="Name of the host, for confirmation.")


class WebServerSerializer(serializers.ModelSerializer[WebServer]):
    host = serializers.CharField(source="host.name", read_only=True)
    modules = serializers.ListField(child=serializers.CharField(), read_only=True)
    paths = serializers.DictField(child=serializers.CharField(allow_blank=True), read_only=True)

    state = serializers.SerializerMethodField(
        help_text="`running`, `stopped`, or `unknown` if the host does not respond or was not checked recently."
    )
    main_files = serializers.SerializerMethodField(
        help_text=(
            "Paddock's main file and the distribution's original, if Paddock manages the main file; otherwise empty."
        )
    )

    class Meta:
        model = WebServer
        fields = [
            "id",
            "host",
            "engine",
            "label",
            "version",
            "modules",
            "paths",
            "layout",
            "control",
            "unit",
            "workers",
            "manages_main_config",
            "main_files",
            "is_running",
            "state",
            "created_at",
            "updated_at",
        ]

    def get_state(self, web_server: WebServer) -> str:
        return web_server_state(web_server)

    def get_main_files(self, web_server: WebServer) -> list[str]:
        state = getattr(web_server, "state", None)
        return [file["path"] for file in state.main_files] if state else []


class WebServerInput(StrictModelSerializer):
    host = serializers.SlugRelatedField(slug_field="name", queryset=Host.objects.all())

    class Meta:
        model = WebServer
        fields = [
            "host",
            "engine",
            "label",
            "version",
            "modules",
            "paths",
            "layout",
            "control",
            "unit",
            "workers",
            "manages_main_config",
        ]
        extra_kwargs = {"paths": {"required": True}}


class PrepareInput(StrictSerializer):
    """Application for which to prepare a host. `plan`: the uuid of the job that listed the packages to install."""

    application = serializers.ChoiceField(choices=list(APPLICATIONS.items()))
    plan = serializers.UUIDField(required=False)


class ServiceInput(StrictSerializer):
    action = serializers.ChoiceField(choices=[(name, name) for name in SERVICE_ACTIONS])


class HostJobSerializer(serializers.ModelSerializer[HostJob]):
    host = serializers.CharField(source="host.name", read_only=True)
    params = serializers.DictField(read_only=True)
    result = serializers.DictField(read_only=True, allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)

    class Meta:
        model = HostJob
        fields = [
            "uuid",
            "host",
            "kind",
            "params",
            "status",
            "result",
            "error",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]
