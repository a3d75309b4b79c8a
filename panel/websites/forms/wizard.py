"""Convert the wizard's values into a site's definition, and the definition's errors back to the wizard's fields."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.websites import services
from panel.websites.forms.sites import Kind, SiteCreateForm, certifiable_names
from panel.websites.models import Site
from panel.websites.services.base import at_fields

# Parts of a place in the definition, and the wizard's field for each.
_FIELDS = {
    "listens": "port",
    "names": "domains",
    "servers": "upstream",
    "address": "php_address",
    "return_value": "redirect_to",
    "certificate": "tls",
}


def _handler(answers: dict[str, Any]) -> dict[str, Any]:
    """Fields of the definition and of its server block that depend on the kind of site."""
    kind = answers["kind"]
    if kind == Kind.PROXY:
        location = {"pattern": "/", "handler": "proxy", "upstream": "app", "websocket": True}
        servers = [{"address": answers["upstream"]}]
        return {"upstreams": [{"name": "app", "servers": servers}], "block": {"locations": [location]}}
    if kind == Kind.REDIRECT:
        target = answers["redirect_to"]
        value = target if target.endswith("/") else f"{target}$request_uri"
        location = {"pattern": "/", "handler": "return", "return_code": 301, "return_value": value}
        return {"block": {"locations": [location]}}
    if kind == Kind.PHP:
        location = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"}
        front = {"try_files": ["$uri", "$uri/", "/index.php?$args"], "index": ["index.php", "index.html"]}
        pools = [{"name": "php", "address": answers["php_address"]}]
        return {"php_pools": pools, "block": {"root": answers["root"], **front, "locations": [location]}}
    return {"block": {"root": answers["root"], "index": ["index.html"], "locations": []}}


def _listens(answers: dict[str, object]) -> list[dict[str, object]]:
    port, is_default = answers["port"], not answers["domains"]
    plain = {"port": port, "default_server": is_default}
    if not answers["tls"]:
        return [plain]
    secure = {"port": 443 if port == 80 else port, "tls": True, "http2": True, "default_server": is_default}
    return [plain, secure] if port == 80 else [secure]


def definition(answers: dict[str, Any], certificate: str | None) -> dict[str, Any]:
    """The site in the format of `site_define`."""
    parts = _handler(answers)
    listens = _listens(answers)
    block = {
        "listens": listens,
        "names": answers["domains"],
        "certificate": certificate,
        "redirect_to_https": len(listens) == 2,
        **parts.pop("block"),
    }
    web_server = answers["web_server"]
    return {
        "name": answers["name"],
        "team": answers["team"].slug,
        "web_server": web_server.pk if web_server else None,
        "blocks": [block],
        **parts,
    }


def _certificate(actor: User, form: SiteCreateForm) -> str | None:
    answers = form.cleaned_data
    if answers["tls"] == "self_signed":
        row = services.certificate_self_sign(
            actor=actor, team=answers["team"], name=answers["name"], names=certifiable_names(form)
        )
        return row.name
    name: str = answers["tls"].removeprefix("certificate:")
    return name or None


@transaction.atomic
def site_from_wizard(actor: User, form: SiteCreateForm) -> Site:
    """Create the site, with a self-signed certificate if requested; raises ValidationError keyed by
    the form's fields.
    """
    try:
        return services.site_define(actor=actor, data=definition(form.cleaned_data, _certificate(actor, form)))
    except ValidationError as error:
        if not hasattr(error, "error_dict"):
            raise
        raise at_fields(error.message_dict, _FIELDS) from error
