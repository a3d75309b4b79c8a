"""TLS of stream servers on pages and in the API: certificates, names, upstreams with TLS, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.websites import certificates, selectors, services
from panel.websites.checks import site_problems
from panel.websites.models import Certificate, Site, StreamRoute, StreamServer, Upstream
from tests.api.caller import Caller, pointers
from tests.support.cast import Cast
from tests.websites.conftest import shop_definition

MAIL: dict[str, Any] = {"site": "shop", "name": "mail", "port": 993, "upstream": "db"}
ROUTES = [{"name": "mail.example.com", "upstream": "imap"}, {"name": "*.example.com", "upstream": "db"}]
UPSTREAM_TLS = {
    "upstream_tls": True,
    "upstream_tls_name": "db.example.com",
    "upstream_tls_ca": "/etc/ssl/certs/ca-certificates.crt",
}


@pytest.fixture
def shop(people: Cast) -> Site:
    site = services.site_define(actor=people.owner, data=shop_definition(people))
    for name, port in (("db", 5432), ("imap", 993)):
        services.upstream_create(actor=people.owner, site=site, name=name, servers=[{"address": f"192.0.2.7:{port}"}])
    return site


@pytest.fixture
def certificate(people: Cast) -> Certificate:
    return _certificate(people, "mail")


def _certificate(people: Cast, name: str, **values: Any) -> Certificate:
    given = {"actor": people.owner, "team": people.team, "names": ["mail.example.com"]} | values
    return services.certificate_self_sign(name=name, **given)


def test_certificate_of_a_stream_server_is_set_read_and_cleared_by_the_api(
    api: Caller, shop: Site, certificate: Certificate
) -> None:
    made = api.post("stream-servers/", MAIL | {"certificate": "mail"} | UPSTREAM_TLS)
    assert made.status_code == 201, made.content
    path = made["Location"].removeprefix("/api/v1/")
    assert api.get(path).json().items() >= {"certificate": "mail", "routes": [], **UPSTREAM_TLS}.items()
    kept = api.patch(path, {"port": 994}).json()
    assert (kept["certificate"], kept["upstream_tls_name"]) == ("mail", "db.example.com")
    cleared = api.patch(
        path, {"certificate": None, "upstream_tls": False, "upstream_tls_name": "", "upstream_tls_ca": ""}
    )
    assert (cleared.status_code, cleared.json()["certificate"]) == (200, None), cleared.content


def test_names_are_set_replaced_and_kept_by_the_api(api: Caller, shop: Site) -> None:
    made = api.post("stream-servers/", MAIL | {"routes": [ROUTES[0] | {"name": "Mail.Example.COM"}, ROUTES[1]]})
    assert made.status_code == 201, made.content
    path = made["Location"].removeprefix("/api/v1/")
    assert made.json()["routes"] == ROUTES
    assert api.patch(path, {"port": 994}).json()["routes"] == ROUTES
    changed = api.patch(path, {"routes": [{"name": "bücher.example", "upstream": "imap"}]})
    assert changed.json()["routes"] == [{"name": "xn--bcher-kva.example", "upstream": "imap"}]
    used = api.delete(f"upstreams/{Upstream.objects.get(name='imap').pk}/")
    assert used.status_code == 409 and "stream servers mail" in used.json()["detail"]
    assert "bcher" in str(AuditEntry.objects.filter(action="stream_server.update").latest("pk").after)
    assert api.patch(path, {"routes": []}).json()["routes"] == []
    assert api.delete(path).status_code == 204 and not StreamRoute.objects.exists()


def test_definition_contains_tls_settings_and_restores_them(api: Caller, shop: Site, certificate: Certificate) -> None:
    api.post("stream-servers/", MAIL | {"certificate": "mail"} | UPSTREAM_TLS)
    api.post("stream-servers/", MAIL | {"name": "names", "port": 443, "routes": ROUTES})
    definition = api.get("sites/shop/definition/").json()
    mail, names = definition["stream_servers"]
    assert (mail["certificate"], names["routes"]) == ("mail", ROUTES)
    versions = dict(StreamServer.objects.values_list("name", "row_version"))
    assert api.put("sites/shop/definition/", definition).status_code == 200
    assert api.get("sites/shop/definition/").json()["stream_servers"] == [mail, names]
    assert dict(StreamServer.objects.values_list("name", "row_version")) == versions
    for wrong, pointer in (
        ({"certificate": "none"}, "/stream_servers/0/certificate"),
        ({"routes": ROUTES}, "/stream_servers/0/routes"),
        ({"routes": [{"name": "a b", "upstream": "db"}]}, "/stream_servers/0/routes/0/name"),
        ({"routes": [{"name": "a.example", "upstream": "none"}]}, "/stream_servers/0/routes/0/upstream"),
        ({"routes": ["a.example"]}, "/stream_servers/0/routes/0"),
        ({"routes": [{"name": "a.example", "upstream": "db", "position": 7}]}, ""),
    ):
        answer = api.put("sites/shop/definition/", definition | {"stream_servers": [mail | wrong, names]})
        assert answer.status_code == 422 or not pointer, answer.content
        assert not pointer or pointers(answer) == [pointer], answer.content
    api.put("sites/shop/definition/", definition | {"stream_servers": []})
    assert not StreamServer.objects.exists()
    shop.delete()


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"certificate": "none"}, "/certificate"),
        ({"certificate": ["mail"]}, "/certificate"),
        ({"certificate": "mail", "protocol": "udp"}, "/certificate"),
        ({"upstream_tls": True, "protocol": "udp"}, "/upstream_tls"),
        ({"upstream_tls": "maybe"}, "/upstream_tls"),
        ({"upstream_tls_name": "db.example.com"}, "/upstream_tls_name"),
        ({"upstream_tls_ca": "/etc/ssl/certs/a.pem"}, "/upstream_tls_ca"),
        (UPSTREAM_TLS | {"upstream_tls_name": ""}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": "$host"}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": "a; }"}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": 'a"'}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": "a\nb"}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": "192.0.2.7"}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_name": "*.example.com"}, "/upstream_tls_name"),
        (UPSTREAM_TLS | {"upstream_tls_ca": "ca.pem"}, "/upstream_tls_ca"),
        (UPSTREAM_TLS | {"upstream_tls_ca": "/etc/shadow"}, "/upstream_tls_ca"),
        (UPSTREAM_TLS | {"upstream_tls_ca": "/etc/ssl/certs/../../shadow"}, "/upstream_tls_ca"),
        (UPSTREAM_TLS | {"upstream_tls_ca": "/etc/ssl/certs/$a.pem"}, "/upstream_tls_ca"),
        (UPSTREAM_TLS | {"upstream_tls_ca": "/etc/ssl/certs/a\n;.pem"}, "/upstream_tls_ca"),
        ({"routes": ROUTES, "certificate": "mail"}, "/routes"),
        ({"routes": ROUTES, "upstream_tls": True}, "/routes"),
        ({"routes": ROUTES, "protocol": "udp"}, "/routes"),
        ({"routes": [ROUTES[0], ROUTES[0]]}, "/routes"),
        ({"routes": [{"name": "mail.example.com"}]}, "/routes"),
        ({"routes": [{"name": "mail.example.com", "upstream": "none"}]}, "/routes"),
        ({"routes": "mail.example.com db"}, "/routes"),
        ({"routes": [{"name": f"a{number}.example", "upstream": "db"} for number in range(501)]}, "/routes"),
        *(
            ({"routes": [{"name": name, "upstream": "db"}]}, "/routes")
            for name in (
                *(
                    "",
                    "a b",
                    "a;",
                    "a{",
                    "a}",
                    'a"',
                    "a'",
                    "a\\",
                    "$a",
                    "a\nb",
                    "a\0b",
                    "~a",
                    "~*a",
                    "*",
                    "a.*",
                    "*a.b",
                ),
                *("*.*.a", ".a.example", "a..b", "-a.example", "192.0.2.7", "[::1]", "a" * 64, "a." * 130 + "b"),
            )
        ),
    ],
)
def test_wrong_tls_values_are_refused_at_their_field(
    api: Caller, shop: Site, certificate: Certificate, values: dict[str, Any], pointer: str
) -> None:
    answer = api.post("stream-servers/", MAIL | values)
    assert answer.status_code == 422, answer.content
    assert {f"/{item.split('/')[1]}" for item in pointers(answer)} == {pointer}, answer.content
    assert not StreamServer.objects.exists() and not StreamRoute.objects.exists()


def test_names_exclude_tls_of_the_web_server_also_when_one_of_both_comes_later(
    api: Caller, shop: Site, certificate: Certificate
) -> None:
    made = api.post("stream-servers/", MAIL | {"routes": ROUTES})
    path = made["Location"].removeprefix("/api/v1/")
    for later in ({"certificate": "mail"}, {"upstream_tls": True}, {"protocol": "udp"}):
        answer = api.patch(path, later)
        assert answer.status_code == 422 and pointers(answer) == ["/routes"], answer.content
    assert "the web server passes TLS on unchanged" in api.patch(path, {"certificate": "mail"}).content.decode()
    assert api.patch(path, {"routes": [], "certificate": "mail"}).status_code == 200


def test_certificate_of_another_team_is_refused(api: Caller, people: Cast, shop: Site) -> None:
    theirs = _certificate(people, "theirs", actor=people.outsider, team=people.other_team)
    assert pointers(api.post("stream-servers/", MAIL | {"certificate": "theirs"})) == ["/certificate"]
    upstream = shop.upstreams.get(name="db")
    with pytest.raises(ValidationError, match="belongs to another team"):
        services.stream_server_create(
            actor=people.admin, site=shop, name="mail", port=993, upstream=upstream, certificate=theirs
        )
    server = services.stream_server_create(actor=people.admin, site=shop, name="mail", port=993, upstream=upstream)
    with pytest.raises(ValidationError, match="belongs to another team"):
        services.stream_server_update(actor=people.admin, server=server, certificate=theirs)
    definition = api.get("sites/shop/definition/").json()
    stream = definition["stream_servers"][0] | {"certificate": "theirs"}
    answer = api.put("sites/shop/definition/", definition | {"stream_servers": [stream]})
    assert pointers(answer) == ["/stream_servers/0/certificate"]
    assert not StreamServer.objects.exclude(certificate=None).exists()


def test_site_keeps_its_team_while_a_stream_server_uses_a_certificate(
    people: Cast, shop: Site, certificate: Certificate
) -> None:
    upstream = shop.upstreams.get(name="db")
    services.stream_server_create(
        actor=people.owner, site=shop, name="mail", port=993, upstream=upstream, certificate=certificate
    )
    with pytest.raises(ValidationError, match="uses the certificate mail"):
        services.site_update(actor=people.admin, site=shop, team=people.other_team)


def test_ca_file_in_the_folder_of_another_team_is_refused(api: Caller, people: Cast, shop: Site) -> None:
    data = {
        "name": "blog",
        "team": "blog",
        "web_server": people.nginx.pk,
        "blocks": [{"listens": [{"port": 80}], "names": ["blog.example"], "root": "/srv/www/blog"}],
    }
    services.site_define(actor=people.outsider, data=data)
    own = api.post("stream-servers/", MAIL | UPSTREAM_TLS | {"upstream_tls_ca": "/srv/www/shop/ca.pem"})
    assert own.status_code == 201, own.content
    theirs = api.patch(own["Location"].removeprefix("/api/v1/"), {"upstream_tls_ca": "/srv/www/blog/ca.pem"})
    assert theirs.status_code == 422 and pointers(theirs) == ["/upstream_tls_ca"], theirs.content


def test_certificate_in_use_by_a_stream_server_is_kept_and_shown(
    owner: Client, people: Cast, shop: Site, certificate: Certificate
) -> None:
    upstream = shop.upstreams.get(name="db")
    services.stream_server_create(
        actor=people.owner, site=shop, name="mail-tls", port=993, upstream=upstream, certificate=certificate
    )
    with pytest.raises(ApplicationError, match="mail is used by mail-tls"):
        services.certificate_delete(actor=people.owner, certificate=certificate)
    for page in (reverse("websites:certificate", args=["mail"]), "/sites/shop/tls/", "/sites/shop/streams/"):
        assert "mail-tls" in owner.get(page).content.decode(), page
    assert (
        "No site uses this certificate"
        not in owner.get(reverse("websites:certificate", args=["mail"])).content.decode()
    )
    assert list(selectors.certificates_of(shop)) == [certificate]
    certificate.not_after = timezone.now()
    certificate.save()
    assert selectors.certificates_expired([shop]) == {shop.pk: [certificate]}
    assert list(selectors.certificates_expiring(people.owner)) == [certificate]
    before = Site.objects.get().version
    new = certificates.self_signed(["mail.example.com"], now=timezone.now())
    pair = {"certificate_pem": new.certificate_pem, "private_key_pem": new.private_key_pem}
    services.certificate_replace(actor=people.owner, certificate=certificate, **pair)
    assert Site.objects.get().version == before + 1


def test_certificate_file_of_another_host_is_a_problem_of_the_site(people: Cast, shop: Site) -> None:
    certificate = _certificate(people, "mail")
    upstream = shop.upstreams.get(name="db")
    services.stream_server_create(
        actor=people.owner, site=shop, name="mail", port=993, upstream=upstream, certificate=certificate
    )
    assert site_problems(shop, actor=people.owner) == []
    other = people.host.__class__.objects.create(name="web-9", address="192.0.2.9")
    Certificate.objects.update(host=other, certificate_path="/etc/a.crt", key_path="/etc/a.key")
    (problem,) = site_problems(shop, actor=people.owner)
    assert problem.where == "stream_servers/0/certificate" and "is a file on web-9" in problem.message


def test_list_shows_upstreams_of_names_and_of_all_other_names(owner: Client, people: Cast, shop: Site) -> None:
    db, imap = Upstream.objects.get(site=shop, name="db"), Upstream.objects.get(site=shop, name="imap")
    routes = [{"name": "mail.example.com", "upstream": imap}]
    services.stream_server_create(actor=people.owner, site=shop, name="mail", port=993, upstream=db, routes=routes)
    page = owner.get("/sites/shop/streams/").content.decode()
    assert "mail.example.com: imap<br >other names: db" in " ".join(page.split())


def test_tls_settings_are_edited_on_the_page(owner: Client, people: Cast, shop: Site, certificate: Certificate) -> None:
    theirs = _certificate(people, "theirs", actor=people.outsider, team=people.other_team)
    form = owner.get("/sites/shop/streams/+new/").content.decode()
    assert "No certificate, no TLS" in form and "Upstreams by TLS server name" in form and theirs.name not in form
    values = {"name": "mail", "protocol": "tcp", "port": "993", "upstream": str(shop.upstreams.get(name="db").pk)}
    values |= {"upstream_tls_name": "", "upstream_tls_ca": ""}  # as browsers send empty fields
    secure = values | {"certificate": str(certificate.pk), **UPSTREAM_TLS, "upstream_tls": "on"}
    assert owner.post("/sites/shop/streams/+new/", secure).status_code == 302
    row = StreamServer.objects.get()
    assert (row.certificate, row.upstream_tls, row.upstream_tls_name) == (certificate, True, "db.example.com")
    both = owner.post(f"/sites/shop/streams/{row.pk}/", secure | {"routes": "mail.example.com imap"})
    assert both.status_code == 422 and "passes TLS on unchanged" in both.content.decode()
    lines = "mail.example.com imap\n*.example.com db"
    wrong = owner.post(f"/sites/shop/streams/{row.pk}/", values | {"routes": "mail.example.com"})
    assert wrong.status_code == 422 and "enter a name and an upstream" in wrong.content.decode()
    wrong = owner.post(f"/sites/shop/streams/{row.pk}/", values | {"routes": "a;b imap"})
    assert wrong.status_code == 422 and "is not valid" in wrong.content.decode()
    assert owner.post(f"/sites/shop/streams/{row.pk}/", values | {"routes": lines}).status_code == 302
    row.refresh_from_db()
    assert row.certificate is None and [route.name for route in row.routes.all()] == [
        "mail.example.com",
        "*.example.com",
    ]
    assert lines in owner.get(f"/sites/shop/streams/{row.pk}/").content.decode()
    assert "mail.example.com: imap" in owner.get("/sites/shop/streams/").content.decode()
    field = owner.post(f"/sites/shop/streams/{row.pk}/", values | {"routes": "x", "_field": "routes"})
    assert "enter a name and an upstream" in field.content.decode()
