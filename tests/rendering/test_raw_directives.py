"""Raw directives: dangerous ones are rejected by name and line, in `check` and in rendering."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering import render, snippets
from panel.rendering.errors import NotExpressible
from panel.rendering.readers import Unreadable, apache, nginx, openlitespeed
from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec, WebServerSpec
from tests.rendering.cases import WEB_SERVERS
from tests.rendering.hostile import block, site, values

DANGEROUS = {
    "nginx": [
        "include /etc/passwd;", "load_module x.so;", "perl_modules /x;", "perl 'sub { }';", "js_content a.b;",
        "js_import /x.js;", "lua_code_cache on;", "content_by_lua_block { os.execute('id') }",
        "access_by_lua_file /tmp/x.lua;", "root /etc;", "alias /;", "access_log /etc/cron.d/x;",
        "error_log /root/.ssh/authorized_keys;", "auth_basic_user_file /etc/shadow;", "root /srv/../etc;",
        "proxy_pass http://unix:/run/docker.sock:/;", "fastcgi_pass unix:/run/php/other.sock;",
        "fastcgi_param SCRIPT_FILENAME /etc/passwd;", "fastcgi_param PHP_VALUE auto_prepend_file=/tmp/x;",
        "fastcgi_param PHP_ADMIN_VALUE open_basedir=/;", "dav_methods PUT;", "ssi on;", "user root;",
        "proxy_store /var/www/x;", "proxy_temp_path /etc;", "ssl_certificate_key /etc/ssl/private/other.key;",
        "if ($x) { include /etc/x; }", "IncludE /etc/x;", "listen 81;", "server_name other.example;", "env PATH;",
        '"include" /etc/x;', "in\\clude x; }",
    ],
    "apache": [
        "Include /etc/passwd", "IncludeOptional /tmp/*.conf", "Define X y", "LoadModule x_module /tmp/x.so",
        "CustomLog \"|/bin/sh -c id\" common", "ErrorLog |/bin/sh", "CustomLog /etc/cron.d/x common",
        "TransferLog '| id'", "LuaHookFixups /x.lua y", "<Perl>\n</Perl>", "PerlRequire /x", "Use Macro",
        "<Macro X>\n</Macro>", "ExtFilterDefine x cmd=/bin/sh", "ScriptAlias /cgi /bin", "Action x /y",
        "DocumentRoot /etc",
        "Alias /x /etc", "AuthUserFile /etc/shadow", "RewriteMap x prg:/bin/sh", "SSLPassPhraseDialog exec:/bin/sh",
        "SetHandler cgi-script", "AddHandler cgi-script .txt", "Options +ExecCGI", "Options Includes",
        "AllowOverride All",
        "ProxyPass / http://169.254.169.254/", "ProxyRequests On", "SetHandler proxy:unix:/run/docker.sock|fcgi://x",
        "Header set X ${SECRET}", "<Directory /etc>\nRequire all granted\n</Directory>", "User root", "Listen 81",
        "ServerAlias other.example", "<VirtualHost *:80>\n</VirtualHost>", "iNcLuDe /x", "Inc\\\nlude /etc/passwd",
        "php_value auto_prepend_file /tmp/x", "php_admin_value open_basedir /", "SetEnv PHP_VALUE auto_prepend_file=/x",
    ],
    "openlitespeed": [
        "include /etc/passwd", "extprocessor x {\n type lsapi\n path /bin/sh\n}", "path /bin/sh", "pipedLogger id",
        "virtualHost x {\n}", "listener x {\n}", "module x {\n}", "unknownBlock {\n}", "setUIDMode 2", "docRoot /etc",
        "scripthandler {\n add lsapi:x php\n}", "context / {\n location /etc/\n}", "context / {\n type cgi\n}",
        "accesslog /etc/cron.d/x {\n}", "realm x {\n userDB {\n location /etc/shadow\n }\n}", "chrootMode 1",
        "phpIniOverride {\n php_admin_value open_basedir /\n}", "rewrite {\n rules <<<E\nRewriteFile /etc/x\nE\n}",
        "extUser root", "inClude x", "includex", "autoLoadHtaccess 1",
    ],
}  # fmt: skip
UNBALANCED = {
    "nginx": ["}", "} server {", "a b; } location / {", "if ($x) {", "a 'b;", "a b", "; ;", "deny all; }"],
    "apache": [
        "</VirtualHost>",
        "</LocationMatch>",
        "<If true>",
        "</If>",
        "<IfModule x>\n</Directory>",
        "<If",
        "LogLevel info\\",
    ],
    "openlitespeed": ["}", "} context / {", "index {", "x <<<END\nnever", "}\n{", "enableGzip 1\\"],
}
HARMLESS = {
    "nginx": 'limit_rate 100k;\nproxy_buffering off; # off\nif ($http_x = "a;b") { return 403; }\nroot /srv/a;',
    "apache": 'Header set X-A "b c"\n<IfModule mod_expires.c>\nExpiresActive On\n</IfModule>\nFileETag None',
    "openlitespeed": "index {\n  autoIndex 1\n}\n# note\nallowBrowse 1",
}
# Directives that only a server block takes.
OF_BLOCKS = {
    "nginx": "ssl_session_tickets off;",
    "apache": "DocumentRoot /srv/a",
    "openlitespeed": "enableGzip 1\ncontext /x/ {\n  location $DOC_ROOT/x/\n}",
}


def in_block(text: str) -> SiteSpec:
    return site(block(snippet=text))


def in_location(text: str) -> SiteSpec:
    return site(block(locations=(Location("", "/", "static", snippet=text),)))


@pytest.mark.parametrize(("engine", "text"), [(e, text) for e, texts in DANGEROUS.items() for text in texts])
def test_dangerous_directives_are_rejected_everywhere(engine: str, text: str) -> None:
    web_server = WEB_SERVERS[engine]
    problems = snippets.check(f"# first\n{text}", web_server)
    assert problems
    assert all(problem.line >= 2 and problem.message for problem in problems)
    for build, field in ((in_block, "/blocks/0/snippet"), (in_location, "/blocks/0/locations/0/snippet")):
        with pytest.raises(NotExpressible) as refusal:
            render(build(text), web_server)
        assert refusal.value.field == field
        assert "line " in refusal.value.message


@pytest.mark.parametrize(("engine", "text"), [(e, text) for e, texts in UNBALANCED.items() for text in texts])
def test_text_that_leaves_its_block_is_rejected(engine: str, text: str) -> None:
    assert snippets.check(text, WEB_SERVERS[engine])


@pytest.mark.parametrize("engine", HARMLESS)
def test_harmless_directives_are_rendered_unchanged(engine: str) -> None:
    text = (
        HARMLESS[engine].replace("extraHeaders <<<END\nX-A b\nEND", "")
        if engine == "openlitespeed"
        else HARMLESS[engine]
    )
    assert snippets.check(HARMLESS[engine], WEB_SERVERS[engine]) == []
    for build in (in_block, in_location):
        assert text.strip() in render(build(text), WEB_SERVERS[engine])[0].text


@pytest.mark.parametrize("engine", OF_BLOCKS)
def test_server_block_directive_is_rejected_in_location(engine: str) -> None:
    assert OF_BLOCKS[engine] in render(in_block(OF_BLOCKS[engine]), WEB_SERVERS[engine])[0].text
    with pytest.raises(NotExpressible, match="not allowed in this part"):
        render(in_location(OF_BLOCKS[engine]), WEB_SERVERS[engine])


def test_raw_directive_problem_names_directive_and_line() -> None:
    (problem,) = snippets.check("gzip on;\n\ninclude /etc/x;\n", WEB_SERVERS["nginx"])
    assert (
        str(problem)
        == "line 3, include: sites cannot contain this directive: the directive includes configuration that "
        "Paddock did not check"
    )


@pytest.mark.parametrize("character", ["\0", "\r", "\x1b", "\x7f"])
@pytest.mark.parametrize("engine", HARMLESS)
def test_control_characters_are_rejected_in_raw_directives(engine: str, character: str) -> None:
    assert snippets.check(f"gzip{character} on;", WEB_SERVERS[engine])


def test_raw_directive_paths_must_be_below_site_roots() -> None:
    web_server = replace(WEB_SERVERS["nginx"], site_roots=("/srv/sites",))
    assert snippets.check("root /srv/sites/a;", web_server) == []
    assert "outside the folders" in snippets.check("root /srv/sitesx;", web_server)[0].message
    assert "outside the folders" in snippets.check("root /srv/sites/../x;", web_server)[0].message
    assert "outside the folders" in snippets.check("root relative;", web_server)[0].message
    assert "contains a variable" in snippets.check("root /srv/sites/$host;", web_server)[0].message


@pytest.mark.parametrize("engine", HARMLESS)
@settings(max_examples=150, deadline=None)
@given(text=values | st.lists(values, max_size=4).map("\n".join))
def test_accepted_raw_directives_stay_in_their_block(engine: str, text: str) -> None:
    """A marker written after the raw directives stays in its block."""
    read = {"nginx": nginx.read, "apache": apache.read, "openlitespeed": openlitespeed.read}[engine]
    if snippets.check(text, WEB_SERVERS[engine]):
        return
    around = {
        "nginx": ("server {\n", "\nmarker on;\n}\n"),
        "apache": ("<VirtualHost *:80>\n", "\nMarker on\n</VirtualHost>\n"),
        "openlitespeed": ("context / {\n", "\nmarker on\n}\n"),
    }[engine]
    try:
        (outer,) = read(around[0] + text.strip("\n") + around[1])
    except Unreadable as error:
        raise AssertionError(f"{text!r} passed but does not fit into a block: {error}") from error
    assert outer.body is not None
    assert outer.body[-1].name.lower() == "marker"


def test_second_openlitespeed_rewrite_block_is_rejected() -> None:
    again = "rewrite {\nenable 1\nrules <<<END\nRewriteRule ^/a$ /b [L]\nEND\n}"
    web_server = WebServerSpec("openlitespeed", "vhosts", "/usr/local/lsws/conf", "/usr/local/lsws/logs", "1.9.1")
    block = ServerBlock((Listen(80),), ("a.example",), root="/srv/a", snippet=again)
    assert "RewriteRule ^/a$" in render(SiteSpec("a", (block,)), web_server)[0].text
    place = Location("", "/old/", "static", try_files=("$uri", "/new"))
    with pytest.raises(NotExpressible, match="contain a block rewrite"):
        render(SiteSpec("a", (replace(block, locations=(place,)),)), web_server)
