"""Serializers of accounts; they never output passwords, secrets, digests, or recovery codes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.accounts.models import ApiToken, Role, SavedView, Scope, Team, Theme, User
from panel.api.serializers import StrictModelSerializer, StrictSerializer, Truth
from panel.core.models import MailServer

VIEW_PAGES = [page.name.lower() for page in SavedView.Page]


class TeamSerializer(StrictModelSerializer):
    members = serializers.SlugRelatedField(
        slug_field="username",
        many=True,
        queryset=User.objects.all(),
        required=False,
        help_text=(
            "User names of all members; replaces the current list. Omit the field to keep the "
            "members. Changing the members requires a session with a recently confirmed password."
        ),
    )

    class Meta:
        model = Team
        fields = ["id", "name", "slug", "members", "created_at", "updated_at"]
        read_only_fields = ["id", "created_at", "updated_at"]


class SavedViewSerializer(serializers.ModelSerializer[SavedView]):
    page = serializers.SerializerMethodField()
    query = serializers.CharField(read_only=True, help_text="The list's query string, for example status=live&q=shop.")

    class Meta:
        model = SavedView
        fields = ["id", "page", "name", "query", "created_at", "updated_at"]

    @extend_schema_field(serializers.ChoiceField(choices=VIEW_PAGES))
    def get_page(self, view: SavedView) -> str:
        return SavedView.Page(view.page).name.lower()


class SavedViewInput(StrictSerializer):
    """Input of a saved view. It replaces the caller's saved view of the same list and name."""

    page = serializers.ChoiceField(choices=VIEW_PAGES)
    name = serializers.CharField(max_length=40)
    query = serializers.CharField(max_length=4000, help_text="The list's query string, for example status=live&q=shop.")


class UserSerializer(serializers.ModelSerializer[User]):
    teams = serializers.SerializerMethodField()
    has_second_factor = serializers.BooleanField(read_only=True)

    class Meta:
        model = User
        fields = [
            "id",
            "username",
            "email",
            "role",
            "teams",
            "is_active",
            "timezone",
            "has_second_factor",
            "last_login",
            "created_at",
            "updated_at",
        ]

    def get_teams(self, user: User) -> list[str]:
        return [team.slug for team in user.teams.all()]


class UserInput(StrictSerializer):
    username = serializers.CharField(max_length=80)
    email = serializers.EmailField(required=False, allow_blank=True)
    role = serializers.ChoiceField(choices=Role.choices, required=False)
    teams = serializers.SlugRelatedField(slug_field="slug", many=True, queryset=Team.objects.all(), required=False)
    is_active = Truth(required=False)
    timezone = serializers.CharField(max_length=64, required=False)
    password = serializers.CharField(
        max_length=1024,
        trim_whitespace=False,
        write_only=True,
        required=False,
        help_text="If you omit the password, create a link with `link/`. The user sets the password with this link.",
    )


class UserChange(UserInput):
    """Input to change a user; all fields are optional."""

    username = serializers.CharField(max_length=80, required=False)
    password = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True, required=False)


class MeSerializer(UserSerializer):
    """The caller's account with the scopes of the request's token.
    `scopes` is null in a session, which has all permissions of the user's role.
    """

    scopes = serializers.SerializerMethodField()

    class Meta(UserSerializer.Meta):
        fields = [*UserSerializer.Meta.fields, "theme", "mail_alerts", "scopes"]

    def get_scopes(self, user: User) -> list[str] | None:
        return None if user.scopes is None else sorted(user.scopes)


class ProfileInput(StrictSerializer):
    """Input to change the caller's own profile; all fields are optional."""

    email = serializers.EmailField(required=False, allow_blank=True)
    timezone = serializers.CharField(max_length=64, required=False)
    theme = serializers.ChoiceField(choices=Theme.choices, required=False)
    mail_alerts = Truth(required=False)


class CheckSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=["ok", "warn", "bad"])
    found = serializers.CharField()
    advice = serializers.CharField(allow_blank=True)


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    user = serializers.CharField(source="user.username", read_only=True)
    is_usable = serializers.BooleanField(read_only=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices), read_only=True)
    addresses = serializers.ListField(child=serializers.CharField(), read_only=True, allow_null=True)

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "user",
            "name",
            "prefix",
            "scopes",
            "addresses",
            "expires_at",
            "revoked_at",
            "last_used_at",
            "last_used_address",
            "is_usable",
            "created_at",
        ]


class TokenInput(StrictSerializer):
    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices), allow_empty=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    addresses = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        allow_null=True,
        help_text="null allows all addresses; an empty list allows no address.",
    )


class TokenMade(TokenSerializer):
    """A new token with its text, which only this response contains."""

    token = serializers.CharField(read_only=True, allow_null=True)

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "token"]


class LinkSerializer(serializers.Serializer[Any]):
    """One-time link with which a user sets the password; shown only here.
    `detail` tells whether the link was mailed.
    """

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()
    mailed = serializers.BooleanField()
    detail = serializers.CharField()


class MailServerSerializer(serializers.Serializer[Any]):
    """The mail server in use. `is_stored` is false if environment variables set the mail server."""

    host = serializers.CharField()
    port = serializers.IntegerField()
    security = serializers.ChoiceField(choices=MailServer.Security.choices)
    username = serializers.CharField()
    sender = serializers.CharField()
    is_stored = serializers.BooleanField()


class MailServerInput(StrictSerializer):
    host = serializers.CharField(max_length=253)
    port = serializers.IntegerField(min_value=1, max_value=65535, required=False, default=587)
    security = serializers.ChoiceField(choices=MailServer.Security.choices, required=False, default="starttls")
    username = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=1024,
        trim_whitespace=False,
        write_only=True,
        required=False,
        allow_blank=True,
        default="",
        help_text="An empty value keeps the stored password, unless the host, port, or user name changes.",
    )
    sender = serializers.CharField(max_length=200, help_text="For example: Paddock <paddock@example.com>")


class SentSerializer(serializers.Serializer[Any]):
    detail = serializers.CharField(help_text="Response of the mail server.")
