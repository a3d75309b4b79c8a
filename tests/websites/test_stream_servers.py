"""Stream servers on pages and in the API: list, create, change, delete; ports of other teams; wrong values."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from panel.audit.models import AuditEntry
from panel.hosts.models import Engine
from panel.websites import services
from panel.websites.checks import clash_suspects, site_problems
from panel.websites.models import Allowance, Listen, Site, StreamServer, Upstream
from tests.api.caller import Caller, caller_of, pointers
from tests.support.cast import Cast, signed_in, web_server
from tests.websites.conftest import shop_definition

DB: dict[str, Any] = {"site": "shop", "name": "db", "port": 5432, "upstream": "db"}


@pytest.fixture
def shop(people: Cast) -> Site:
    site = services.site_define(actor=people.owner, data=shop_definition(people))
    services.upstream_create(actor=people.owner, site=site, name="db", servers=[{"address": "192.0.2.7:5432"}])
    return site


def _stream(people: Cast, site: Site) -> StreamServer:
    upstream = site.upstreams.get(name="db")
    return services.stream_server_create(actor=people.owner, site=site, name="db", port=5432, upstream=upstream)


def _blog(people: Cast, *, listens_on: int = 80, enabled: bool = True, **stream: Any) -> Site:
    """A site of the other team on the same host."""
    data = {
        "name": "blog",
        "team": "blog",
        "web_server": people.nginx.pk,
        "enabled": enabled,
        "upstreams": [{"name": "db", "servers": [{"address": "192.0.2.9:5432"}]}],
        "blocks": [{"listens": [{"port": listens_on}], "names": ["blog.example"], "root": "/srv/www/blog"}],
        "stream_servers": [{"name": "db", "upstream": "db", **stream}] if stream else [],
    }
    return services.site_define(actor=people.outsider, data=data)


def test_stream_server_is_created_read_changed_and_deleted_by_the_api(api: Caller, shop: Site) -> None:
    body = DB | {"proxy_protocol": True, "allowed": ["192.0.2.0/24"], "session_timeout_s": 3600}
    before = shop.version
    made = api.post("stream-servers/", body)
    assert made.status_code == 201, made.content
    path = made["Location"].removeprefix("/api/v1/")
    found = api.get(path).json()
    assert found.items() >= (body | {"protocol": "tcp", "address": "", "connect_timeout_s": None}).items()
    listed = api.get("stream-servers/?site__name=shop&port=5432").json()["results"]
    assert [row["id"] for row in listed] == [found["id"]]
    changed = api.patch(path, {"port": 5433, "allowed": []})
    assert (changed.status_code, changed.json()["port"], changed.json()["upstream"]) == (200, 5433, "db")
    stale = api.patch(path, {"port": 5434}, If_Match=made["ETag"])
    assert stale.status_code == 412
    used = api.delete(f"upstreams/{Upstream.objects.get(name='db').pk}/")
    assert used.status_code == 409 and "stream servers db" in used.json()["detail"]
    dry = api.post("stream-servers/?dry_run=true", DB | {"name": "other", "port": 1})
    assert dry.status_code == 200 and StreamServer.objects.count() == 1
    shop.refresh_from_db()
    assert shop.version == before + 2, "a change of a stream server is a change of the draft"
    assert api.delete(path).status_code == 204 and not StreamServer.objects.exists()
    actions = set(AuditEntry.objects.filter(action__startswith="stream_server").values_list("action", flat=True))
    assert actions == {"stream_server.create", "stream_server.update", "stream_server.delete"}


def test_definition_contains_stream_servers_and_restores_them(api: Caller, shop: Site) -> None:
    api.post("stream-servers/", DB | {"protocol": "udp", "address": "127.0.0.1"})
    row = StreamServer.objects.get()
    definition = api.get("sites/shop/definition/").json()
    (stream,) = definition["stream_servers"]
    assert (stream["protocol"], stream["port"], stream["upstream"]) == ("udp", 5432, "db")
    again = api.put("sites/shop/definition/", definition | {"stream_servers": [stream | {"port": 53}]})
    assert again.status_code == 200, again.content
    assert (StreamServer.objects.get().pk, StreamServer.objects.get().port) == (row.pk, 53)
    wrong = api.put("sites/shop/definition/", definition | {"stream_servers": [stream | {"upstream": "none"}]})
    assert wrong.status_code == 422 and pointers(wrong) == ["/stream_servers/0/upstream"]
    api.put("sites/shop/definition/", definition | {"stream_servers": []})
    assert not StreamServer.objects.exists()


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"port": 0}, "/port"),
        ({"port": 65536}, "/port"),
        ({"port": "5432; }"}, "/port"),
        ({"address": "not an address"}, "/address"),
        ({"address": "127.0.0.1\n;"}, "/address"),
        ({"address": "127.0.0.1; deny all"}, "/address"),
        ({"name": "a b"}, "/name"),
        ({"name": "x;\n}"}, "/name"),
        ({"protocol": "sctp"}, "/protocol"),
        ({"upstream": "none"}, "/upstream"),
        ({"upstream": "\0"}, "/upstream"),
        ({"upstream": None}, "/upstream"),
        ({"upstream": ["db"]}, "/upstream"),
        ({"allowed": ["all"]}, "/allowed"),
        ({"allowed": ["192.0.2.1; }"]}, "/allowed"),
        ({"allowed": "192.0.2.1"}, "/allowed"),
        ({"connect_timeout_s": 0}, "/connect_timeout_s"),
        ({"session_timeout_s": 10**9}, "/session_timeout_s"),
        ({"protocol": "udp", "proxy_protocol": True}, "/proxy_protocol"),
        ({"protocol": "udp", "connect_timeout_s": 5}, "/connect_timeout_s"),
        ({"protocol": "udp", "upstream": "socket"}, "/upstream"),
        ({"site": "blog"}, "/site"),
        ({"tls": True}, "/tls"),
    ],
)
def test_wrong_values_are_refused_at_their_field(
    api: Caller, people: Cast, shop: Site, values: dict[str, Any], pointer: str
) -> None:
    _blog(people)
    services.upstream_create(
        actor=people.admin, site=shop, name="socket", servers=[{"address": "unix:/srv/www/shop/app.sock"}]
    )
    answer = api.post("stream-servers/", DB | values)
    assert answer.status_code == 422, answer.content
    assert {f"/{item.split('/')[1]}" for item in pointers(answer)} == {pointer}, answer.content
    assert not StreamServer.objects.exists()


def test_upstream_of_another_site_is_not_offered(api: Caller, people: Cast, shop: Site) -> None:
    services.site_define(
        actor=people.owner,
        data={
            "name": "other",
            "team": "shop",
            "upstreams": [{"name": "theirs", "servers": [{"address": "192.0.2.8:1"}]}],
        },
    )
    assert pointers(api.post("stream-servers/", DB | {"upstream": "theirs"})) == ["/upstream"]
    page = signed_in(people.owner).get("/sites/shop/streams/+new/").content.decode()
    assert ">db<" in page and "theirs" not in page


@pytest.mark.parametrize(
    ("theirs", "mine", "is_refused"),
    [
        ({"port": 5432}, {}, True),
        ({"port": 5432}, {"address": "127.0.0.1"}, True),
        ({"port": 5432, "address": "127.0.0.1"}, {}, True),
        ({"port": 5432, "address": "127.0.0.1"}, {"address": "127.0.0.2"}, False),
        ({"port": 5432, "address": "::1"}, {}, False),
        ({"port": 5432, "protocol": "udp"}, {}, False),
        ({"port": 5432, "protocol": "udp"}, {"protocol": "udp"}, True),
        ({}, {"port": 80}, True),
        ({}, {"port": 80, "protocol": "udp"}, False),
    ],
)
def test_port_of_another_team_is_refused_without_the_name_of_its_site(
    api: Caller, people: Cast, shop: Site, theirs: dict[str, Any], mine: dict[str, Any], is_refused: bool
) -> None:
    Listen.objects.filter(block__site=shop).delete()
    _blog(people, **theirs)
    answer = api.post("stream-servers/", DB | mine)
    if not is_refused:
        assert answer.status_code == 201, answer.content
        return
    assert answer.status_code == 422 and pointers(answer) == ["/port"], answer.content
    assert "is already used by nginx on web-1 for a site of another team" in answer.content.decode()
    assert "blog" not in answer.content.decode()


def test_port_of_a_stream_server_is_refused_to_server_blocks_of_others(people: Cast, shop: Site) -> None:
    services.stream_server_create(
        actor=people.owner, site=shop, name="db", port=5432, upstream=shop.upstreams.get(name="db")
    )
    with pytest.raises(ValidationError) as caught:
        _blog(people, listens_on=5432)
    assert "*:5432 is already used by nginx on web-1 for a site of another team" in str(caught.value)
    disabled = _blog(people, listens_on=5432, enabled=False)
    with pytest.raises(ValidationError):
        services.site_enable(actor=people.outsider, site=disabled, enabled=True)
    other = web_server(people.host, Engine.NATIVE, "")
    disabled.web_server = other
    disabled.save()
    with pytest.raises(ValidationError):
        services.site_enable(actor=people.outsider, site=disabled, enabled=True)


def test_ports_of_one_site_must_differ(api: Caller, shop: Site) -> None:
    twice = api.post("stream-servers/", DB | {"port": 80})
    assert "*:80 is already used by this site" in twice.content.decode()
    assert api.post("stream-servers/", DB).status_code == 201
    again = api.post("stream-servers/", DB | {"name": "again", "address": "127.0.0.1"})
    assert again.status_code == 422 and "5432 is already used by this site" in again.content.decode()


def test_clash_suspects_include_every_site_with_a_clash(people: Cast, shop: Site) -> None:
    services.stream_server_create(
        actor=people.owner, site=shop, name="db", port=5432, upstream=shop.upstreams.get(name="db")
    )
    blog = _blog(people, listens_on=5433)
    assert blog.pk not in clash_suspects([shop, blog])
    Listen.objects.filter(block__site=blog).update(port=5432)  # as two requests at the same time may leave it
    assert clash_suspects([shop, blog]) == {shop.pk, blog.pk}
    assert [item.where for item in site_problems(blog, actor=people.outsider)] == ["blocks/0/listens"]


def test_service_of_the_host_needs_an_allowance(api: Caller, people: Cast, shop: Site) -> None:
    Allowance.objects.all().delete()
    servers = [{"address": "127.0.0.1:6379"}]
    refused = api.post("upstreams/", {"site": "shop", "name": "redis", "servers": servers})
    assert refused.status_code == 422 and "service on the host itself" in refused.content.decode()


def test_strangers_and_viewers_cannot_change_stream_servers(api: Caller, people: Cast, shop: Site) -> None:
    path = api.post("stream-servers/", DB)["Location"].removeprefix("/api/v1/")
    viewer, outsider = caller_of(people.viewer), caller_of(people.outsider)
    assert viewer.get(path).status_code == 200
    assert (viewer.patch(path, {"port": 1}).status_code, viewer.delete(path).status_code) == (403, 403)
    assert (outsider.get(path).status_code, outsider.delete(path).status_code) == (404, 404)
    assert outsider.post("stream-servers/", DB).status_code == 422
    assert outsider.get("stream-servers/").json()["results"] == []


def test_site_without_server_blocks_has_all_its_pages(api: Caller, people: Cast, owner: Client) -> None:
    data = {
        "name": "only",
        "team": "shop",
        "web_server": people.nginx.pk,
        "upstreams": [{"name": "db", "servers": [{"address": "192.0.2.7:5432"}]}],
        "stream_servers": [{"name": "db", "port": 5432, "upstream": "db"}],
    }
    site = services.site_define(actor=people.owner, data=data)
    assert site_problems(site, actor=people.owner) == []
    for page in ("", *(f"{tab}/" for tab in (
        "streams", "streams/+new", "blocks", "upstreams", "php", "tls", "explain", "raw", "logs", "requests", "traffic",
        "history", "edit", "clone", "server", "servers", "benchmarks",
    ))):  # fmt: skip
        answer = owner.get(f"/sites/only/{page}")
        assert answer.status_code == 200, (page, answer.status_code)
    assert "libnginx-mod-stream" in owner.get("/sites/only/raw/").content.decode()
    clone = services.site_clone(actor=people.owner, site=site, name="copy", domains=["copy.example"])
    assert not clone.stream_servers.exists(), "a port of a host belongs to one site"
    for path in ("", "definition/", "problems/", "differences/", "preview/"):
        assert api.get(f"sites/only/{path}").status_code in (200, 422), path
    site.delete()
    assert not StreamServer.objects.exists()


def test_stream_server_is_added_changed_and_deleted_on_its_pages(owner: Client, shop: Site) -> None:
    assert "No stream servers yet" in owner.get("/sites/shop/streams/").content.decode()
    values = {"name": "db", "protocol": "tcp", "port": "5432", "upstream": str(shop.upstreams.get(name="db").pk)}
    made = owner.post("/sites/shop/streams/+new/", values | {"allowed": "192.0.2.0/24\n2001:db8::/32"})
    assert made.status_code == 302, made.content.decode()
    row = StreamServer.objects.get()
    assert row.allowed == ["192.0.2.0/24", "2001:db8::/32"]
    text = owner.get("/sites/shop/streams/").content.decode()
    assert "*:5432" in text and "192.0.2.0/24" in text
    form = owner.get(f"/sites/shop/streams/{row.pk}/").content.decode()
    assert "192.0.2.0/24\n2001:db8::/32" in form
    wrong = owner.post(f"/sites/shop/streams/{row.pk}/", values | {"port": "80"})
    assert wrong.status_code == 422 and "is already used by this site" in wrong.content.decode()
    owner.post(f"/sites/shop/streams/{row.pk}/", values | {"port": "5433", "session_timeout_s": "60"})
    row.refresh_from_db()
    assert (row.port, row.session_timeout_s, row.allowed) == (5433, 60, [])
    hits = owner.get("/search/?q=5433").content.decode()
    assert "/sites/shop/streams/" in hits
    assert "Delete the stream server db?" in owner.get(f"/sites/shop/streams/{row.pk}/delete/").content.decode()
    owner.post(f"/sites/shop/streams/{row.pk}/delete/")
    assert not StreamServer.objects.exists()
