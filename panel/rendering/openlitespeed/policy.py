"""What raw OpenLiteSpeed directives a site may not hold."""

from __future__ import annotations

from panel.rendering.policy import Policy
from panel.rendering.readers import Read
from panel.rendering.readers.openlitespeed import read

RUNS = "it starts programs"
READS = "it reads configuration that nobody checked"
GLOBAL = "it changes the whole server, not this site"

REFUSED = {
    "include*": READS, "configfile": READS, "templatefile": READS, "extprocessor": RUNS, "path": RUNS,
    "pipedlogger": RUNS, "extuser": GLOBAL, "extgroup": GLOBAL, "setuidmode": GLOBAL, "chroot*": GLOBAL,
    "enablechroot": GLOBAL, "user": GLOBAL, "group": GLOBAL, "listener": GLOBAL, "virtualhost": GLOBAL,
    "vhtemplate": GLOBAL, "vhroot": GLOBAL, "docroot": "the document root belongs to the server block",
    "module": "it loads code into the server", "scripthandler": "it decides what code runs; use the site's PHP pool",
    "add": "it decides what code runs; use the site's PHP pool", "cgirlimit": GLOBAL, "accessdenydir": GLOBAL,
    "autoloadhtaccess": "files in the site's folders could then change the server's configuration",
    "allowoverride": "files in the site's folders could then change the server's configuration",
    "php_admin_value": "it decides what code runs; use the site's PHP pool", "php_admin_flag": RUNS,
    "vhssl": "certificates belong to the server block", "map": "it can run a command or read any file",
    "binpath": RUNS, "env": RUNS, "startupfile": RUNS,
}  # fmt: skip
BLOCKS = frozenset(
    {
        *("accesscontrol", "context", "errorpage", "expires", "hotlinkctrl", "index", "phpinioverride", "realm"),
        *("rewrite", "userdb", "groupdb", "websocket", "accesslog", "errorlog", "lsrecaptcha", "awstats"),
    }
)
PATHS = ("location", "keyfile", "certfile", "cacertfile", "cacertpath", "crlfile", "accesslog", "errorlog")
PROGRAMS = ("cgi", "fcgi", "lsapi", "appserver", "webapp", "module", "servlet", "uwsgi", "scgi", "ssi")


def _judge(item: Read) -> str:
    words = " ".join(item.args).split()
    if item.body is not None and item.name not in BLOCKS:
        return "is not a block that a site may hold; an unknown one would swallow what follows it"
    if item.name == "type" and words and words[0].lower() in PROGRAMS:
        return "hands requests to a program; use the site's PHP pools and upstreams"
    if item.name.startswith("php_") and "auto_prepend_file" in words:
        return "decides what code runs; use the site's PHP pool"
    if "rewritefile" in " ".join(item.args).lower() or item.name == "rewritefile":
        return "reads rewrite rules that nobody checked"
    if item.name == "address" and any(word.startswith(("uds:", "unix:")) for word in words):
        return "names a Unix socket; use one of the site's upstreams"
    return ""


def _paths(item: Read) -> tuple[str, ...]:
    """Redirect contexts hold a URL here, which is below no folder: they are the site's locations anyway."""
    value = item.args[0] if item.args else ""
    return (value,) if value and not value.lower().startswith(("$doc_root/", "http://", "https://")) else ()


POLICY = Policy(read, REFUSED, _judge, lambda name: name in PATHS, _paths)
