"""Authentication of API callers: programs with a bearer token, users with the panel's own session (CSRF-protected)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from panel.accounts.guessing import Kind, wrong_secret_counted
from panel.accounts.models import ApiToken, User
from panel.accounts.services.tokens import token_authenticate
from panel.audit.services import Caller, caller
from panel.core.network import client_address

_REFUSED = "This token is unknown, expired, revoked, or not allowed from your address."


class BearerAuthentication(BaseAuthentication):
    """Authentication with an API token: `Authorization: Bearer pdk_...`.
    All failures have the same response, so that it does not tell which tokens exist.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, plain = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer":
            raise AuthenticationFailed("Send the header Authorization: Bearer with a token.")
        address = client_address(request._request)
        token = token_authenticate(plain=plain.strip(), address=address)
        if token is None:
            wrong_secret_counted(request._request, Kind.TOKEN)
            raise AuthenticationFailed(_REFUSED)
        token.user.scopes = frozenset(token.scopes)
        caller.set(Caller(address=address or None, token_prefix=token.prefix))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="paddock"'


class PanelSessionAuthentication(SessionAuthentication):
    """Authentication with the panel's session cookie.
    Users are signed in only after two-factor authentication; unsafe methods need the header X-CSRFToken.
    """


class _BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token from Settings, API tokens."}


class _SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = PanelSessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "paddock_session"}
