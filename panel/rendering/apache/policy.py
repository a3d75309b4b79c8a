"""What raw Apache directives a site may not hold."""

from __future__ import annotations

from panel.rendering.policy import Policy
from panel.rendering.readers import Read
from panel.rendering.readers.apache import read

LOADS = "it loads code into the server"
RUNS = "it runs a command"
READS = "it reads configuration that nobody checked"
EXPANDS = "it changes how every later line is read"
GLOBAL = "it changes the whole server, not this site"

REFUSED = {
    "include": READS, "includeoptional": READS, "define": EXPANDS, "undefine": EXPANDS, "use": EXPANDS,
    "macro": EXPANDS, "undefmacro": EXPANDS, "<macro>": EXPANDS, "loadmodule": LOADS, "loadfile": LOADS,
    "lua*": LOADS, "perl*": LOADS, "python*": LOADS, "wsgi*": LOADS, "passenger*": LOADS, "php_admin_*": LOADS,
    "phpinidir": LOADS, "extfilterdefine": RUNS, "script*": RUNS, "action": RUNS, "cgi*": RUNS, "addhandler":
    "it can turn files into programs; use the site's PHP pool", "suexecusergroup": GLOBAL, "assignuserid": GLOBAL,
    "user": GLOBAL, "group": GLOBAL, "listen": "ports belong to the server block; change them there",
    "servername": "names belong to the server block; change them there",
    "serveralias": "names belong to the server block; change them there",
    "virtualhost": "it opens another virtual host; add a server block to the site instead",
    "allowoverride": "files in the site's folders could then change the server's configuration",
    "allowoverridelist": "files in the site's folders could then change the server's configuration",
    "dav": "it lets visitors write files", "davlockdb": "it lets visitors write files", "pidfile": GLOBAL,
    "mutex": GLOBAL, "serverroot": GLOBAL, "coredumpdirectory": GLOBAL, "passenv": "it shows the server's environment",
    "sslpassphrasedialog": RUNS, "sslrandomseed": GLOBAL, "rewritemap": "it can run a command or read any file",
    "mdcertificate*": GLOBAL, "mdmessagecmd": RUNS, "mdnotifycmd": RUNS, "mdchallengedns01": RUNS,
    "dbd*": "it opens databases",
    "proxypass": "proxying belongs to the site's locations and upstreams",
    "proxypassmatch": "proxying belongs to the site's locations and upstreams",
    "proxyremote*": "proxying belongs to the site's locations and upstreams",
    "proxyrequests": "it makes the server an open proxy",
    "balancermember": "proxying belongs to the site's upstreams",
}  # fmt: skip
LOGS = ("customlog", "errorlog", "transferlog", "globallog", "forensiclog", "rewritelog", "cookielog")
PATHS = {
    "documentroot": 0, "alias": 1, "aliasmatch": 1, "directory": 0, "directorymatch": 0, "files": -1,
    "authuserfile": 0, "authgroupfile": 0, "authdbmuserfile": 0, "authdbmgroupfile": 0, "authdigestfile": 0,
    "sslcertificatefile": 0, "sslcertificatekeyfile": 0, "sslcertificatechainfile": 0, "sslcacertificatefile": 0,
    "sslcacertificatepath": 0, "sslcarevocationfile": 0, "sslcarevocationpath": 0, "cacheroot": 0, "cachefile": 0,
    "mmapfile": 0, "typesconfig": 0, "mimemagicfile": 0, "sessioncryptopassphrasefile": 0,
    **dict.fromkeys(LOGS, 0),
}  # fmt: skip


def _judge(item: Read) -> str:
    name, values = item.name.lower(), [value.lower() for value in item.args]
    if any("${" in value for value in item.args):
        return "holds ${, which is replaced by a variable that nobody checked"
    if name in LOGS and values and values[0].startswith("|"):
        return "is not allowed to pipe a log: it runs a command as root"
    if any(value.startswith(("unix:", "proxy:unix:", "exec:", "prg:")) or "|fcgi:" in value for value in values):
        return "names a socket or a command; use one of the site's upstreams or PHP pools"
    if name in ("sethandler", "forcetype", "addtype", "setoutputfilter", "addoutputfilter") and _is_program(values):
        return "turns files into programs"
    if name == "options" and any(value.lstrip("+") in ("execcgi", "includes", "all") for value in values):
        return "lets files in the site's folders run commands"
    if (
        name in ("setenv", "php_value", "php_flag")
        and values
        and values[0] in ("auto_prepend_file", "auto_append_file")
    ):
        return "decides what code runs; use the site's PHP pool"
    if name in ("setenv", "proxyfcgisetenvif") and {"php_value", "php_admin_value", "script_filename"} & set(values):
        return "decides what code runs; use the site's PHP pool"
    return ""


def _is_program(values: list[str]) -> bool:
    words = ("cgi-script", "server-parsed", "includes", "application/x-httpd", "proxy:", "fcgid-script", "lua-script")
    return any(word in value for value in values for word in words)


def _takes_path(name: str) -> bool:
    return PATHS.get(name, -1) >= 0


def _paths(item: Read) -> tuple[str, ...]:
    where = PATHS[item.name.lower()]
    found = [value for value in item.args if value != "~"][where : where + 1]
    return tuple(value for value in found if not value.startswith("syslog"))


POLICY = Policy(read, REFUSED, _judge, _takes_path, _paths, frozenset({"authuserfile", "authgroupfile"}))
