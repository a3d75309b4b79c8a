"""Raw directives that leave a site: the real server obeys them, and every input of the panel rejects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.websites.models import RawSnippet, Site
from panel.websites.services import site_define
from tests.rendering.test_allowed_directives import cases
from tests.suites.security.conftest import session_of
from tests.support.apache import ApacheInstance
from tests.support.cast import Cast, cast
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

CANARY = "canary-of-another-team"
# What the server does with each, when nothing refuses it: (directive, path, header) after which the canary is read.
Row = tuple[str, str, dict[str, str]]
NGINX: list[Row] = [
    (r"rewrite ^/f/(.*)$ /../$1 break;", "/f/canary.txt", {}),
    (r"rewrite ^/(.)(.)a/(.*)$ /$1$2/$3 break;", "/..a/canary.txt", {}),
    ("try_files /$arg_f =404;", "/x?f=../canary.txt", {}),
    ("try_files /$http_x =404;", "/x", {"X": "../canary.txt"}),
    ("error_page 404 =200 /../canary.txt;", "/none", {}),
    ("location /f { alias {root}/www/site/; }", "/f../canary.txt", {}),
    ("index ../canary.txt;", "/", {}),
]
APACHE: list[Row] = [
    ('ErrorDocument 404 "%{{file:{root}/www/canary.txt}}"', "/none", {}),
    ("RewriteEngine On\nRewriteRule ^/f/(.*)$ {root}/www/$1 [L]", "/f/canary.txt", {}),
    ("RewriteEngine On\nRewriteRule ^/x$ {root}/www/canary.txt [L]", "/x", {}),
    ("AliasMatch ^/f/(.*)$ {root}/www/$1", "/f/canary.txt", {}),
    ('<Location /x>\nRedirect 302 "https://x.example/%{{file:{root}/www/canary.txt}}"\n</Location>', "/x", {}),
]


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def filled(text: str, root: Path) -> str:
    """Apache's rows are format strings; nginx's hold braces of their own."""
    return text.format(root=root) if "{{" in text else text.replace("{root}", str(root))


def files(root: Path) -> None:
    (root / "www" / "site").mkdir(parents=True, exist_ok=True)
    (root / "www" / "canary.txt").write_text(CANARY)


@pytest.mark.parametrize(("text", "path", "headers"), NGINX)
def test_rejected_directives_would_expose_files_on_nginx(
    text: str, path: str, headers: dict[str, str], server_root: Path
) -> None:
    files(server_root)
    nginx, port = NginxInstance(server_root), free_port()
    block = f"server {{ listen 127.0.0.1:{port}; root {server_root}/www/site; {filled(text, server_root)} }}"
    (server_root / "conf.d" / "site.conf").write_text(block)
    with_server = nginx.start()
    try:
        assert CANARY in ask(port, path, headers=headers).text
    finally:
        with_server.stop()


@pytest.mark.parametrize(("text", "path", "headers"), APACHE)
def test_rejected_directives_would_expose_files_on_apache(
    text: str, path: str, headers: dict[str, str], server_root: Path
) -> None:
    files(server_root)
    apache, port = ApacheInstance(server_root), free_port()
    inner = f"DocumentRoot {server_root}/www/site\n{filled(text, server_root)}"
    (server_root / "conf.d" / "site.conf").write_text(
        f"Listen 127.0.0.1:{port}\n<VirtualHost 127.0.0.1:{port}>\n{inner}\n</VirtualHost>\n"
    )
    with_server = apache.start()
    try:
        answer = ask(port, path, headers=headers)
        assert CANARY in answer.text or CANARY in answer.headers.get("location", "")
    finally:
        with_server.stop()


def shop(people: Cast, engine: str) -> Site:
    web_server = {"nginx": people.nginx, "apache": people.apache}[engine]
    block = {"listens": [{"port": 80}], "names": ["shop.example"], "root": "/srv/www/shop"}
    data = {"name": "shop", "team": people.team.slug, "web_server": web_server.pk, "blocks": [block]}
    return site_define(actor=people.admin, data=data)


@pytest.mark.parametrize("engine", ["nginx", "apache"])
def test_page_and_api_reject_directives_that_leave_site(people: Cast, engine: str) -> None:
    site = shop(people, engine)
    block = site.blocks.get()
    page = session_of(people.admin)
    rows = NGINX if engine == "nginx" else APACHE
    texts = [text for name, text in cases("refused") if name == engine][::6]  # rendering's tests have them all
    texts += [filled(text, Path("/srv/www")) for text, _path, _headers in rows]
    wrong = []
    for text in texts:
        sent = {"engine": engine, "text": text}
        answer = page.post(f"/sites/shop/snippets/+new/?block={block.pk}", sent)
        definition = {"blocks": [{"listens": [{"port": 80}], "names": ["a.example"], "snippets": {engine: text}}]}
        other = {"name": "other", "team": people.team.slug, "web_server": site.web_server_id, **definition}
        whole = page.post("/api/v1/sites/", other, content_type="application/json")
        if (answer.status_code, whole.status_code) != (422, 422) or RawSnippet.objects.exists():
            wrong.append(f"{text}: page {answer.status_code}, API {whole.status_code}")
            RawSnippet.objects.all().delete()
    assert not wrong, "\n".join(wrong)
