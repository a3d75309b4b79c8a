"""Creation of a site from a preset, with an access log of its own, and errors assigned to the preset's values."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.hosts.models import WebServer
from panel.websites.definitions import ListenData
from panel.websites.models import Certificate, LogFormat, Site
from panel.websites.presets import PRESETS, Answers
from panel.websites.services.base import at_fields
from panel.websites.services.definition import site_define
from panel.websites.services.sites import listens_of

# Maps parts of a place in the definition to the argument that they are made from.
_VALUES = {
    "listens": "port",
    "names": "domains",
    "servers": "upstream",
    "address": "php_address",
    "return_value": "redirect_to",
    "certificate": "certificate",
}


def site_from_preset(
    *,
    actor: User,
    preset: str,
    team: Team,
    name: str,
    domains: list[str],
    web_server: WebServer | None = None,
    port: int = 80,
    certificate: Certificate | None = None,
    ipv6: bool = False,
    **answers: str,
) -> Site:
    """Create a site from a preset. `answers`: the fields of presets.Answers that the preset needs.

    An empty `root` means the folder with the site's name in the host's first site folder. With a certificate and port
    80, the site also listens on 443 and redirects to it. `ipv6`: listen on the same ports of IPv6, too. Raises
    PermissionDenied, and ValidationError keyed by arguments.
    """
    parts = PRESETS[preset].parts(_given(preset, name, web_server, answers))
    listens = listens_of(port, certificate, is_default=not domains)
    block = {
        "listens": [*listens, *(_on_ipv6(listen) for listen in listens if ipv6)],
        "names": domains,
        "certificate": certificate.name if certificate else None,
        "redirect_to_https": len(listens) == 2,
        **_access_log(web_server, name),
        **parts.block,
    }
    pk = web_server.pk if web_server else None
    data: dict[str, object] = {"name": name, "team": team.slug, "web_server": pk, "blocks": [block]}
    data |= {"upstreams": parts.upstreams, "php_pools": parts.php_pools}
    try:
        return site_define(actor=actor, data=data)
    except ValidationError as error:
        if not hasattr(error, "error_dict"):
            raise
        raise at_fields(error.message_dict, _VALUES) from error


def _on_ipv6(listen: ListenData) -> ListenData:
    return {**listen, "address": "::"}


def _given(preset: str, name: str, web_server: WebServer | None, answers: Mapping[str, str]) -> Answers:
    """Return the values that the preset needs, with a default for `root`. Raises ValidationError for missing values."""
    needs = PRESETS[preset].needs
    values = {key: answers.get(key) or "" for key in needs}
    if "root" in needs and not values["root"]:
        values["root"] = _root(web_server, name)
    missing = [key for key in needs if not values[key]]
    if missing:
        raise ValidationError({key: _("The preset %s needs this value.") % preset for key in missing})
    return Answers(**values)


def _root(web_server: WebServer | None, name: str) -> str:
    roots = web_server.host.site_roots if web_server else []
    return f"{roots[0].rstrip('/')}/{name}" if roots else ""


def _access_log(web_server: WebServer | None, name: str) -> dict[str, str]:
    """Return the server block's fields for an access log of its own, with response times, in the web server's log
    folder. {} without a web server.
    """
    folder = web_server.paths.get("log_dir", "").rstrip("/") if web_server else ""
    return {"access_log": f"{folder}/{name}.access.log", "access_log_format": LogFormat.TIMED} if folder else {}
