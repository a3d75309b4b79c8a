"""Site paths that leave the site's folder are rejected on every input, with a safe alternative."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from panel.deployments.planning.services import deployment_plan
from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Listen, Location, Rewrite, ServerBlock, SiteSpec, WebServerSpec
from panel.websites import services
from panel.websites.models import Site
from tests.api.caller import SITE, caller_of
from tests.support.cast import Cast, signed_in

WWW = "/srv/www/shop"
REFUSED = [
    ("rewrites", {"rewrites": [{"pattern": "^/f/(.*)$", "replacement": "/../../$1", "flag": "break"}]}, "contains .."),
    ("rewrites", {"rewrites": [{"pattern": "^/f/", "replacement": "/a/../../b", "flag": ""}]}, "contains .."),
    ("alias", {"pattern": "/x/", "alias": f"{WWW}/a"}, "needs a final /"),
    ("alias", {"pattern": "/x", "alias": f"{WWW}/a/", "try_files": ["$uri", "=404"]}, "use the location /x/"),
    (
        "try_files",
        {
            "pattern": "/x/",
            "try_files": ["/$arg_f", "=404"],
            "rewrites": [{"pattern": "^/x/a$", "replacement": "/x/b", "flag": "break"}],
        },
        "and move try_files to another location",
    ),
]
IDS = ["climbing rewrite", "climbing middle", "alias without slash", "loose alias", "client value after break"]


@pytest.mark.parametrize(("field", "values", "words"), REFUSED, ids=IDS)
def test_location_outside_site_folder_is_rejected_by_service_api_and_page(
    people: Cast, field: str, values: dict[str, Any], words: str
) -> None:
    values = {"pattern": "/f/"} | values
    site = services.site_create(
        actor=people.owner, team=people.team, name="shop", web_server=people.nginx, domains=["shop.example"], root=WWW
    )
    with pytest.raises(ValidationError) as caught:
        services.location_create(actor=people.owner, block=site.blocks.get(), **values)
    assert list(caught.value.message_dict) == [field] and words in caught.value.message_dict[field][0]
    definition = deepcopy(SITE) | {"name": "second", "web_server": people.nginx.pk}
    definition["blocks"][0] |= {"locations": [values], "names": ["second.example"]}
    answer = caller_of(people.owner).post("sites/", definition)
    assert answer.status_code == 422 and words in answer.content.decode(), answer.content
    block = site.blocks.get()
    form = {"pattern": "/f/", "match": "", "handler": "static", "rate_limit_burst": 0, **_as_form(values)}
    page = signed_in(people.owner).post(f"/sites/shop/blocks/{block.pk}/locations/+new/", form)
    assert page.status_code == 422 and words in page.content.decode()
    assert not site.blocks.get().locations.exists() and not Site.objects.filter(name="second").exists()


def _as_form(values: dict[str, Any]) -> dict[str, Any]:
    found = dict(values)
    if "try_files" in values:
        found["try_files"] = " ".join(values["try_files"])
    if "rewrites" in values:
        lines = [f"{item['pattern']} {item['replacement']} {item['flag']}".strip() for item in values["rewrites"]]
        found["rewrites"] = "\n".join(lines)
    return found


HONEST = [
    {"rewrites": [{"pattern": "^/old/(.*)$", "replacement": "/new/$1", "flag": "last"}]},
    {"try_files": ["$uri", "$uri/", "/index.php?$args"]},
    {"try_files": ["/cache/$host$uri.html", "$uri", "=404"]},
    {"try_files": ["/cache/$http_host$request_uri", "$uri", "=404"]},
    {"pattern": "/static", "alias": f"{WWW}/static"},
    {"pattern": "/static/", "alias": f"{WWW}/static/", "try_files": ["$uri", "$uri.html", "=404"]},
    {"match": "~", "pattern": r"^/u/(\w+)/(.*)$", "try_files": ["/users/$1/$2", "=404"]},
]


@pytest.mark.parametrize("values", HONEST)
def test_location_inside_site_folder_is_accepted_and_planned(people: Cast, values: dict[str, Any]) -> None:
    site = services.site_create(
        actor=people.owner, team=people.team, name="shop", web_server=people.nginx, domains=["shop.example"], root=WWW
    )
    services.location_create(actor=people.owner, block=site.blocks.get(), **({"pattern": "/f/"} | values))
    assert deployment_plan(actor=people.owner, sites=[site])


WEB_SERVER = WebServerSpec("nginx", "conf_d", "/etc/nginx", "/var/log/nginx", "1.26.0")


def text(**values: Any) -> str:
    block = ServerBlock((Listen(80),), ("a.example",), root=WWW, **values)
    return "".join(file.text for file in render(SiteSpec("shop", (block,)), WEB_SERVER))


def test_path_checks_are_rendered_only_for_unproven_paths() -> None:
    plain = text(
        locations=(
            Location("", "/", "static", try_files=("$uri", "$uri/", "=404")),
            Location("", "/static/", "static", alias=f"{WWW}/static/"),
        ),
        rewrites=(Rewrite(r"^/([a-z]+)\.htm$", "/$1.html"),),
    )
    assert "if (" not in plain and "map " not in plain
    captured = text(rewrites=(Rewrite("^/old/(.*)$", "/new/$1", "last"),))
    assert captured.count("if (") == 1 and "return 400;" in captured and "map " not in captured
    climbing = text(rewrites=(Rewrite("^/(.)(.)a/(.*)$", "/$1$2/$3", "break"),))
    assert "map $uri $paddock_shop_rewrite_0_0 {" in climbing and "return 403;" in climbing
    tried = text(locations=(Location("", "/", "static", try_files=("/$arg_f", "=404")),))
    assert "set $paddock_shop_try_0_0_0 /$arg_f;" in tried and "return 403;" in tried
    assert "try_files $paddock_shop_try_0_0_0 =404;" in tried, "what is tried is what was checked"


def test_stored_site_outside_its_folder_is_not_rendered() -> None:
    """An older version of the panel may have stored the definition."""
    for location in (
        Location("", "/x/", "static", alias="/srv/a"),
        Location("", "/x/", "static", rewrites=(Rewrite("^", "/../x", "break"),)),
    ):
        with pytest.raises(NotExpressible):
            text(locations=(location,))


def test_gallop_gets_site_folders_when_it_supports_confine_files() -> None:
    block = ServerBlock(
        (Listen(80),),
        ("a.example",),
        root=WWW,
        locations=(
            Location("", "/m/", "static", alias="/srv/media/m/"),
            Location("=", "/one", "static", alias="/srv/one/file.txt"),
            Location("", "/in/", "static", root=f"{WWW}/inside"),
            Location("", "/raw/", "static", snippet="if ($arg_a) { return 204; }\nroot /srv/raw;"),
        ),
    )
    web_server = WebServerSpec(
        "native", "conf_d", "/etc/gallop", "/var/log/gallop", "0.1.0", frozenset({"confine_files"}), ("/srv",)
    )
    found = render(SiteSpec("shop", (block,)), web_server)[0].text
    assert f"confine_files /srv/media/m /srv/one /srv/raw {WWW};" in found
    older = WebServerSpec("native", "conf_d", "/etc/gallop", "/var/log/gallop", "0.1.0", site_roots=("/srv",))
    assert "confine_files" not in render(SiteSpec("shop", (block,)), older)[0].text
