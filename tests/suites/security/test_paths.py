"""Files of other teams on a shared host, requested through API and pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from panel.websites import services
from panel.websites.models import ServerBlock, Site
from tests.api.caller import caller_of
from tests.suites.security import world as marks
from tests.suites.security.conftest import session_of
from tests.suites.security.world import World
from tests.support.cast import Cast, cast
from tests.websites.test_block_pages import fields_of

WORDS = "ask an administrator"


@pytest.fixture
def mine(world: World) -> Site:
    """The outsider's own site, on the same host."""
    return services.site_create(
        actor=world.outsider,
        team=world.outsider.teams.get(),
        name="mine",
        domains=["mine.example"],
        web_server=world.site.web_server,
        root="/srv/www/mine",
    )


@pytest.mark.parametrize("path", ["/srv/www/zzz", "/srv/www/zzz/wp-config.php", "/srv/www"])
def test_api_rejects_foreign_path_without_revealing_owner(world: World, mine: Site, path: str) -> None:
    outsider, block = caller_of(world.outsider), mine.blocks.get()
    definition = services.site_export(mine)
    definition["blocks"][0]["root"] = path
    quick = {"name": "other", "team": "others", "domains": ["o.example"], "web_server": marks.KEY, "root": path}
    answers = [
        outsider.patch(f"blocks/{block.pk}/", {"root": path}),
        outsider.post(f"blocks/{block.pk}/locations/", {"pattern": "/x/", "alias": f"{path}/"}),
        outsider.post("blocks/", {"site": "mine", "names": ["n.example"], "listens": [{"port": 80}], "root": path}),
        outsider.put(f"sites/{mine.name}/definition/", definition),
        outsider.post("sites/quick/", quick),
        outsider.post("sites/", definition | {"name": "other"}),
    ]
    for answer in answers:
        assert answer.status_code == 422 and WORDS in answer.content.decode(), answer.content
        assert marks.NAME not in answer.content.decode() and "Owners" not in answer.content.decode()
    assert ServerBlock.objects.get(pk=block.pk).root == "/srv/www/mine" and Site.objects.count() == 2


def test_page_rejects_foreign_path_at_its_field(world: World, mine: Site) -> None:
    block = mine.blocks.get()
    browser: Client = session_of(world.outsider)
    url = f"/sites/mine/blocks/{block.pk}/locations/+new/"
    data = fields_of(browser, url) | {"pattern": "/x/", "handler": "static", "alias": "/srv/www/zzz/"}
    answer = browser.post(url, data)
    assert answer.status_code == 422 and WORDS in answer.content.decode()
    assert not block.locations.exists()


def test_administrator_token_without_scope_acts_as_operator(world: World, mine: Site) -> None:
    block = f"blocks/{mine.blocks.get().pk}/"
    assert caller_of(world.admin, ["sites"]).patch(block, {"root": "/srv/www/zzz"}).status_code == 422
    assert caller_of(world.admin, ["admin"]).patch(block, {"root": "/srv/www/zzz"}).status_code == 200


def test_log_of_another_team_is_not_read_by_page_or_api(db: None, tmp_path: Path) -> None:
    """A real file on a real host: without the check its lines would be shown."""
    people: Cast = cast(str(tmp_path))
    folder = tmp_path / "var/log/nginx"
    folder.mkdir(parents=True)
    for name in ("blog", "shop"):
        (folder / f"{name}.log").write_text(f"visitor of {name}\n")
    for name, actor, team in (("blog", people.outsider, people.other_team), ("shop", people.owner, people.team)):
        site = services.site_create(
            actor=actor,
            team=team,
            name=name,
            domains=[f"{name}.example"],
            web_server=people.nginx,
            root=f"{tmp_path}/srv/www/{name}",
        )
        services.block_update(actor=actor, block=site.blocks.get(), access_log=str(folder / f"{name}.log"))
    ServerBlock.objects.filter(site__name="shop").update(error_log=str(folder / "blog.log"))
    key = ServerBlock.objects.get(site__name="shop").pk
    owner, browser, admin = caller_of(people.owner), session_of(people.owner), caller_of(people.admin)
    own = f"sites/shop/logs/?log=access_log-{key}"
    theirs = f"sites/shop/logs/?log=error_log-{key}"
    assert owner.get(own).json()["lines"] == ["visitor of shop"]
    refused = owner.get(theirs)
    assert refused.status_code == 403 and WORDS in refused.json()["detail"]
    page = browser.get(f"/{theirs}")
    assert WORDS in page.content.decode() and "visitor of blog" not in page.content.decode()
    assert admin.get(theirs).json()["lines"] == ["visitor of blog"]
