"""REST endpoints of accounts: profile, users, teams, saved views, tokens, mail server, and self-check."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts import selectors
from panel.accounts.models import ApiToken, SavedView, Team, User
from panel.accounts.permissions import Action, require, teams_visible
from panel.accounts.serializers import (
    CheckSerializer,
    LinkSerializer,
    MailServerInput,
    MailServerSerializer,
    MeSerializer,
    ProfileInput,
    SavedViewInput,
    SavedViewSerializer,
    SentSerializer,
    TeamSerializer,
    TokenInput,
    TokenMade,
    TokenSerializer,
    UserChange,
    UserInput,
    UserSerializer,
)
from panel.accounts.services import links, mail_server, saved_views, second_factor, tokens, users
from panel.api.base import ApiMixin, Resource, require_sudo
from panel.api.problems import ApiError
from panel.api.serializers import EmptySerializer
from panel.core.mail import server
from panel.reports.selectors import looked_at


class MeView(ApiMixin):
    """The caller's own account."""

    # Sessions only, see below: a token acts for its owner and must not change the owner's account.
    writes = Action.VIEW

    @extend_schema(responses=MeSerializer, operation_id="me_retrieve")
    def get(self, request: Request) -> Response:
        return Response(MeSerializer(self.actor).data)

    @extend_schema(request=ProfileInput, responses=MeSerializer, operation_id="me_update")
    def patch(self, request: Request) -> Response:
        """Change the caller's own e-mail address, time zone, appearance, or mail notifications."""
        if request.auth is not None:
            raise ApiError(
                "forbidden",
                "API tokens cannot change the profile of their owner. Sign in to the panel to change your profile.",
            )
        given = ProfileInput(data=request.data)
        given.is_valid(raise_exception=True)
        kept = {name: getattr(self.actor, name) for name in ("email", "timezone", "theme", "mail_alerts")}
        values = kept | given.validated_data
        values["timezone_name"] = values.pop("timezone")
        return Response(MeSerializer(users.profile_update(actor=self.actor, **values)).data)


class SelfCheckView(ApiMixin):
    """Run the self-check: database, worker, scheduler, gallop, load tools, mail, and disk of the panel.

    Takes about a second.
    """

    reads = Action.ADMINISTER

    @extend_schema(responses=CheckSerializer(many=True), operation_id="self_check")
    def get(self, request: Request) -> Response:
        require(self.actor, Action.ADMINISTER)
        return Response(CheckSerializer(selectors.self_check(looked_at=looked_at()), many=True).data)


class Teams(Resource):
    """Teams, which own sites. All users see their own teams; administrators see and change all."""

    model = Team
    serializer_class = TeamSerializer
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {"name": ["exact", "in", "icontains"], "slug": ["exact", "in"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = set()

    def rows(self) -> QuerySet[Team]:
        return teams_visible(self.actor).prefetch_related("members")

    def _values(self, request: Request, *, partial: bool = False) -> dict[str, Any]:
        # Checked before any lookup: an error about members would reveal existing names.
        if isinstance(request.data, dict) and "members" in request.data:
            require_sudo(request, "change the members of a team")
        return self.body(TeamSerializer, partial=partial)

    def create(self, request: Request) -> Response:
        team = users.team_create(actor=self.actor, **self._values(request))
        return self.answer(team, status=201, location=f"/api/v1/teams/{team.pk}/")

    def update(self, request: Request, pk: str = "") -> Response:
        team = self.get_object()
        self.expected_version(team)
        return self.answer(users.team_update(actor=self.actor, team=team, **self._values(request)))

    def partial_update(self, request: Request, pk: str = "") -> Response:
        team = self.get_object()
        self.expected_version(team)
        values = {"name": team.name, "slug": team.slug} | self._values(request, partial=True)
        return self.answer(users.team_update(actor=self.actor, team=team, **values))

    def destroy(self, request: Request, pk: str = "") -> Response:
        team = self.get_object()
        self.expected_version(team)
        users.team_delete(actor=self.actor, team=team)
        return Response(status=204)


class SavedViews(Resource):
    """The caller's saved views (named filters of lists), visible to nobody else."""

    model = SavedView
    serializer_class = SavedViewSerializer
    # Saved views belong to the caller alone, so read access suffices to change them.
    writes = Action.VIEW
    filter_fields = {"name": ["exact", "icontains"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "id"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[SavedView]:
        return selectors.saved_views_of(self.actor)

    @extend_schema(request=SavedViewInput, responses={200: SavedViewSerializer, 201: SavedViewSerializer})
    def create(self, request: Request) -> Response:
        """Save a list's query string under a name.

        Status 200 if the caller already had a view of that name, 201 otherwise.
        """
        values = self.body(SavedViewInput)
        page = SavedView.Page[values["page"].upper()]
        view = saved_views.view_save(actor=self.actor, page=page, name=values["name"], query=values["query"])
        status = 201 if view.row_version == 1 else 200
        return self.answer(view, status=status, location=f"/api/v1/saved-views/{view.pk}/")

    def destroy(self, request: Request, pk: str = "") -> Response:
        saved_views.view_delete(actor=self.actor, view=self.get_object())
        return Response(status=204)


class Users(Resource):
    """User accounts; only for administrators. Changes need a session with a recently confirmed password."""

    model = User
    serializer_class = UserSerializer
    reads = writes = Action.ADMINISTER
    versioned = True
    filter_fields = {
        "username": ["exact", "in", "icontains"],
        "role": ["exact", "in"],
        "is_active": ["exact"],
        "teams__slug": ["exact"],
    }
    ordering_fields = ("id", "username", "created_at")
    ordering = "username"
    shown_once = ("url",)

    def rows(self) -> QuerySet[User]:
        require(self.actor, Action.ADMINISTER)
        return selectors.user_list()

    @extend_schema(request=UserInput, responses={201: UserSerializer})
    def create(self, request: Request) -> Response:
        require_sudo(request, "create accounts")
        user = users.user_create(actor=self.actor, **{"password": None, **self.body(UserInput)})
        return self.answer(user, status=201, location=f"/api/v1/users/{user.pk}/")

    @extend_schema(request=UserChange)
    def partial_update(self, request: Request, pk: str = "") -> Response:
        require_sudo(request, "change accounts")
        user = self.get_object()
        self.expected_version(user)
        return self.answer(users.user_update(actor=self.actor, user=user, **self.body(UserChange)))

    def destroy(self, request: Request, pk: str = "") -> Response:
        require_sudo(request, "delete accounts")
        user = self.get_object()
        self.expected_version(user)
        users.user_delete(actor=self.actor, user=user)
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses=UserSerializer)
    @action(detail=True, methods=["post"], url_path="second-factor-off")
    def second_factor_off(self, request: Request, pk: str = "") -> Response:
        """Turn off two-factor authentication for a user, for example after a lost phone.

        The user then signs in with the password alone, until they turn on two-factor authentication again.
        """
        require_sudo(request, "turn off two-factor authentication")
        user = self.get_object()
        second_factor.second_factor_disable(actor=self.actor, user=user)
        return self.answer(user)

    @extend_schema(request=EmptySerializer, responses=LinkSerializer)
    @action(detail=True, methods=["post"])
    def link(self, request: Request, pk: str = "") -> Response:
        """Create a one-time link with which the user sets a new password.
        The URL is shown only in this response, and mailed if possible. Earlier links of the user stop working.
        """
        require_sudo(request, "create a link to set a password")
        made = links.link_create(actor=self.actor, user=self.get_object())
        values = {"url": request.build_absolute_uri(made.path), "expires_at": made.link.expires_at}
        return Response(LinkSerializer({**values, "mailed": made.is_sent, "detail": made.sent}).data)


class MailServerView(ApiMixin):
    """The mail server that the panel sends mails with. Changes need a session with a recently confirmed password."""

    reads = writes = Action.ADMINISTER

    @extend_schema(responses=MailServerSerializer, operation_id="mail_server_retrieve")
    def get(self, request: Request) -> Response:
        require(self.actor, Action.ADMINISTER)
        return self._shown()

    @extend_schema(request=MailServerInput, responses=MailServerSerializer, operation_id="mail_server_update")
    def put(self, request: Request) -> Response:
        """Store a mail server; it replaces the mail server that the environment variables set."""
        require_sudo(request, "change the mail server")
        given = MailServerInput(data=request.data)
        given.is_valid(raise_exception=True)
        mail_server.mail_server_set(actor=self.actor, **given.validated_data)
        return self._shown()

    @extend_schema(responses={204: None}, operation_id="mail_server_delete")
    def delete(self, request: Request) -> Response:
        """Delete the stored mail server, so that the mail server of the environment variables is used again."""
        require_sudo(request, "change the mail server")
        mail_server.mail_server_delete(actor=self.actor)
        return Response(status=204)

    def _shown(self) -> Response:
        found = server()
        if found is None:
            raise ApiError("not-found", "No mail server is configured.")
        return Response(MailServerSerializer(found).data)


class MailTestView(ApiMixin):
    """Send a test mail to the caller's own address."""

    writes = Action.ADMINISTER

    @extend_schema(request=EmptySerializer, responses=SentSerializer, operation_id="mail_server_test")
    def post(self, request: Request) -> Response:
        return Response({"detail": mail_server.mail_test(actor=self.actor)})


class Tokens(Resource):
    """The caller's API tokens. Creating one needs a session with a recently confirmed password."""

    model = ApiToken
    serializer_class = TokenSerializer
    # Read access suffices to manage the caller's own tokens; the service rejects revoking a token with more scopes
    # than the caller has.
    writes = Action.VIEW
    filter_fields = {"name": ["exact", "icontains"], "prefix": ["exact", "in"]}
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    shown_once = ("token",)

    def rows(self) -> QuerySet[ApiToken]:
        return selectors.token_list(self.actor).select_related("user")

    @extend_schema(request=TokenInput, responses={201: TokenMade})
    def create(self, request: Request) -> Response:
        require_sudo(request, "create tokens")
        token, plain = tokens.token_create(actor=self.actor, **self.body(TokenInput))
        token.token = plain  # type: ignore[attr-defined]
        data: dict[str, Any] = dict(TokenMade(token).data)
        return Response(data, status=201, headers={"Location": f"/api/v1/tokens/{token.pk}/"})

    @extend_schema(description="Revokes the token. The audit log keeps all entries about the token.")
    def destroy(self, request: Request, pk: str = "") -> Response:
        tokens.token_revoke(actor=self.actor, token=self.get_object())
        return Response(status=204)
