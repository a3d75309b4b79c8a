"""The mapping of OpenLiteSpeed's templates, rewrite rules and .htaccess files, without a server."""

from __future__ import annotations

import pytest

from panel.imports.mapping import mapped
from panel.imports.reading import Loader, SourceFile
from panel.imports.report import FoundSite
from panel.rendering.spec import WebServerSpec

WEB_SERVER = WebServerSpec(
    "openlitespeed", "vhosts", "/usr/local/lsws/conf", "/usr/local/lsws/logs", site_roots=("/srv",)
)
LISTENER = "listener Default {\n  address *:80\n  map shop shop.example\n}\n"
HOST = "virtualHost shop {{\n  vhRoot /srv/shop\n  docRoot $VH_ROOT/html\n  {more}\n}}\n"
FRONT = "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n"
AUTO = "rewrite {\nenable 1\nautoLoadHtaccess 1\n}"


def sites(main: str, **files: str) -> list[FoundSite]:
    texts = {"/usr/local/lsws/conf/httpd_config.conf": main} | {name.replace("__", "/"): files[name] for name in files}
    held = {path: SourceFile(path, text) for path, text in texts.items()}
    loader = Loader("openlitespeed", lambda path: [held[path]] if path in held else [], "/usr/local/lsws")
    loaded = loader.load("/usr/local/lsws/conf/httpd_config.conf")
    assert not loaded.faults
    return mapped(loaded, WEB_SERVER, "/usr/local/lsws").sites


def shop(more: str, **files: str) -> FoundSite:
    (site,) = sites(LISTENER + HOST.format(more=more), **files)
    return site


def rules(text: str) -> str:
    return f"rewrite {{\nenable 1\nrules <<<END\n{text}END\n}}"


def test_trailing_dot_pattern_maps_to_plain_name() -> None:
    listener = LISTENER.replace("shop.example", "shop.example, shop.example., *.x.test, *.x.test.")
    (site,) = sites(listener + HOST.format(more=""))
    assert site.definition["blocks"][0]["names"] == ["shop.example", "*.x.test"]


def test_template_members_are_sites() -> None:
    main = "listener Default {\n  address *:80\n  map first *\n}\n"
    main += "vhTemplate many {\n  templateFile conf/templates/many.conf\n  listeners Default\n"
    main += (
        "  member first {\n    vhAliases *.first.example\n  }\n  member second {\n    vhDomain two.example\n  }\n}\n"
    )
    template = "vhRoot /srv/$VH_NAME\nvirtualHostConfig {\n  docRoot $VH_ROOT/html\n}\n"
    first, second = sites(main, **{"/usr/local/lsws/conf/templates/many.conf": template})
    blocks = [site.definition["blocks"][0] for site in (first, second)]
    assert [block["root"] for block in blocks] == ["/srv/first/html", "/srv/second/html"]
    assert [block["names"] for block in blocks] == [["first", "*.first.example"], ["two.example"]]
    assert not blocks[0]["listens"][0]["default_server"], "a listener's map of a member counts for nothing"


def test_front_controller_rewrite_maps_to_try_files() -> None:
    block = shop(rules(FRONT)).definition["blocks"][0]
    assert block["try_files"] == ["$uri", "$uri/", "/index.php$is_args$args"]
    assert "snippets" not in block


def test_htaccess_file_maps_to_site() -> None:
    own = "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n"
    text = f"<IfModule mod_rewrite.c>\n{own}{FRONT}</IfModule>\n"
    site = shop(AUTO, **{"/srv/shop/html/.htaccess": text})
    assert site.definition["blocks"][0]["try_files"] == ["$uri", "$uri/", "/index.php$is_args$args"]
    assert not site.refused
    assert next(item.note for item in site.items if item.text.startswith("htaccess")).startswith(
        "the web server no longer reads"
    )


def test_unmapped_htaccess_file_is_reported_by_name() -> None:
    text = "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} bot\nRewriteRule . - [F]\n"
    (item,) = shop(AUTO, **{"/srv/shop/html/.htaccess": text}).refused
    assert (item.file, item.note.startswith("sites do not support the rules of this file")) == (
        "/srv/shop/html/.htaccess",
        True,
    )


def test_htaccess_is_ignored_without_rewrite_block() -> None:
    site = shop("", **{"/srv/shop/html/.htaccess": "RewriteEngine On\nRewriteRule . - [F]\n"})
    assert not [item for item in site.items if item.text.startswith("htaccess")]


@pytest.mark.parametrize("context", ["context /api/ {\nallowBrowse 0\n}", "context exp:^/x$ {\nallowBrowse 1\n}"])
def test_global_rewrite_rules_stay_raw_beside_contexts(context: str) -> None:
    site = shop(context + "\n" + rules(FRONT))
    assert "RewriteRule . /index.php [L]" in site.definition["blocks"][0]["snippets"]["openlitespeed"]


def test_program_starting_directives_are_reported_as_lost() -> None:
    app = "extprocessor lsphp {\ntype lsapi\naddress uds://tmp/x.sock\npath /usr/bin/lsphp\n}\n"
    app += "scripthandler {\nadd lsapi:lsphp php\n}"
    assert {item.text.split()[0] for item in shop(app).refused} == {"extprocessor", "scripthandler"}


def test_disabled_scripts_are_reported_as_lost() -> None:
    assert [item.text for item in shop("enableScript 0").refused] == ["enablescript 0"]


def test_raw_openlitespeed_directives_keep_paths() -> None:
    site = shop("context /odd {\nlocation $VH_ROOT/odd/\n}")
    assert "location /srv/shop/odd/" in site.definition["blocks"][0]["snippets"]["openlitespeed"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Header set X-A plain words", "plain words"),
        ('Header set X-A "in quotes"', "in quotes"),
        ("Header set X-A '\"inner\"'", '"inner"'),
        ('X-A: a "b" c', 'a "b" c'),
        ('Header set X-A "a" env=x', None),
        ("Header set X-A a early", None),
        ('Header set X-A "a" b', None),
        ("Header set X-A %{HTTP_HOST}e", None),
    ],
)
def test_context_headers_are_mapped_as_sent(line: str, value: str | None) -> None:
    more = f"context /files/ {{\nlocation /srv/shop/files/\nallowBrowse 1\nextraHeaders <<<END\n{line}\nEND\n}}"
    found = shop(more).definition["blocks"][0]["locations"]
    assert [row["headers"][0]["value"] for row in found] == ([] if value is None else [value])
