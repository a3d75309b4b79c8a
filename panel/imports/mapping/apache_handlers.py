"""What answers paths of a virtual host: redirects, rewriting, upstreams, PHP and other folders.

A directive's answer: "" mapped, "!note" changed, "-note" refused, other words why it stays raw, None: it stays.
"""

from __future__ import annotations

import re
from typing import Any

from panel.imports.mapping import apache_rewrites
from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import fits, slug
from panel.imports.reading import Node
from panel.websites import validators

REDIRECTS = {"": 302, "temp": 302, "permanent": 301, "seeother": 303}
PHP_FILES = (r"\.php$", r".+\.php$", r"\.ph(?:ar|p|tml)$", r".+\.ph(?:ar|p|tml)$", r".+\.ph(ar|p|tml)$")
FPM = re.compile(r"proxy:(?:(?P<socket>unix:/[^|]+)\|fcgi://.*|fcgi://(?P<address>[^/]+)/?)\Z")
TARGET = re.compile(r"(?P<scheme>https?)://(?P<server>[^/:]+|\[[^\]]+\])(?::(?P<port>\d+))?(?P<uri>/.*)?\Z")
TO_HTTPS = re.compile(r"https://%\{(?:SERVER_NAME|HTTP_HOST)\}(?:%\{REQUEST_URI\}|/\$1)\Z")


def alias(made: Host, node: Node) -> str | None:
    """With a slash at both ends it is the model's prefix. With none at either it means whole segments, and a folder is
    led to itself with a slash."""
    path, folder = _aliased(node)
    if not path:
        return "without a final slash it means other paths than the model's locations"
    if fits(validators.validate_path, folder) or fits(validators.validate_uri_path, path):
        return "its path has no place in the model"
    if why := _location(made, {"pattern": path, "alias": folder}):
        return why
    if node.value.endswith("/"):
        return ""
    led = {"pattern": f"^{re.escape(node.value)}$", "replacement": path, "flag": "permanent"}
    _location(made, {"match": "=", "pattern": node.value, "rewrites": [led]})
    return f"!{node.value} leads to {path} by a location of its own"


def _aliased(node: Node) -> tuple[str, str]:
    """The prefix and the folder, each with a slash at its end; "" for others, and for what looks like a file."""
    if len(node.args) != 2 or node.value == "/":
        return "", ""
    path, folder = node.args
    if path.endswith("/") != folder.endswith("/"):
        return "", ""
    if path.endswith("/"):
        return path, folder
    return ("", "") if "." in folder.rpartition("/")[2] else (f"{path}/", f"{folder}/")


def _location(made: Host, row: dict[str, Any]) -> str | None:
    values = {"match": "", "handler": "static", **row}
    keys = [(known["match"], known["pattern"]) for known in made.block["locations"]]
    if made.ended or (values["match"], values["pattern"]) in keys:
        return "another directive answers these paths already"
    made.block["locations"].append(values)
    return ""


def redirect(made: Host, node: Node) -> str | None:
    """Everything to another site; of other paths Apache's redirects mean segments, and stay raw."""
    args = list(node.args)
    code: int | None = {"redirectpermanent": 301, "redirecttemp": 302}.get(node.low)
    if code is None:
        word = args[0].lower() if len(args) == 3 else ""
        code = int(word) if word.isdigit() else REDIRECTS.get(word)
        args = args[1:] if len(args) == 3 else args
    if code is None or len(args) != 2 or args[0] != "/" or not re.fullmatch(r"https?://[^$%?]+/", args[1]):
        return "the model has redirects of everything, or of single locations"
    if code not in validators.REDIRECTS:
        return "this status has no place in the model"
    return _everything(made, code, args[1].rstrip("/") + "$request_uri")


def _everything(made: Host, code: int, value: str) -> str | None:
    row = {"pattern": "/", "handler": "return", "return_code": code, "return_value": value}
    found = _location(made, row)
    made.ended = made.ended or found == ""
    return found


def rewrite(made: Host, node: Node) -> str | None:
    """The one rule that everybody has, which leads to https; else the list of the model, or all stay raw, in order."""
    rules = [item for item in made.own if item.low == "rewriterule"]
    if len(rules) != 1 or not is_to_https(rules[0]):
        return _rewrites(made, node)
    conditions = [item for item in made.own if item.low == "rewritecond"]
    tls = any(item["tls"] for item in made.block["listens"])
    names = {value.lower() for low in ("servername", "serveralias") for item in made.own if item.low == low
             for value in item.args}  # fmt: skip
    if not apache_rewrites.is_on(made.own) or not apache_rewrites.always_holds(conditions, names, is_tls=tls):
        return "its conditions have no place in the model"
    if node.low != "rewriterule":
        return "!every request to this virtual host is redirected" if node.low == "rewritecond" else ""
    flags = rules[0].args[2].strip("[]").lower().split(",")
    code = next((flag[2:] for flag in flags if flag.startswith("r=")), "302")
    number = int(code) if code.isdigit() else REDIRECTS.get(code)
    return _everything(made, number, "https://$host$request_uri") if number in validators.REDIRECTS else None


def _rewrites(made: Host, node: Node) -> str | None:
    if not apache_rewrites.is_on(made.own):
        return "the engine is off, so they do nothing"
    found = apache_rewrites.found(made.own)
    if found.why or not (found.rewrites or found.try_files):
        return found.why or None
    made.block["rewrites"] = found.rewrites
    if found.try_files:
        made.block["try_files"] = found.try_files
    return f"!{found.note}" if found.note else ""


def is_to_https(node: Node) -> bool:
    """Whether a rule redirects everything to https."""
    if node.low != "rewriterule" or len(node.args) != 3 or not TO_HTTPS.match(node.args[1]):
        return False
    flags = node.args[2].strip("[]").lower().split(",")
    everything = node.args[0] in ("^", "^/?(.*)", "^/(.*)$", "^/?(.*)$", "(.*)", "^(.*)$", "^.*$")
    return everything and any(flag == "r" or flag.startswith("r=") for flag in flags)


def proxy_pass(made: Host, node: Node) -> str | None:
    """A prefix and a URL that both end in a slash, or neither says a path."""
    if len(node.args) < 2:
        return None
    path, url = node.args[:2]
    if url == "!" and any(_aliased(item)[0] == f"{path.rstrip('/')}/" for item in made.own if item.low == "alias"):
        return ""  # that folder's location answers by itself
    match = TARGET.match(url)
    if match is None or not path.startswith("/"):
        return None
    uri = match["uri"] or ""
    if path.endswith("/") != uri.endswith("/") or (path != "/" and not path.endswith("/")):
        return "-without a final slash on both it means other paths than the model's locations; write the slashes"
    port = match["port"] or ("443" if match["scheme"] == "https" else "80")
    address = f"{match['server']}:{port}"
    if why := fits(validators.validate_upstream_address, address):
        return f"-{why}"
    servers = {"balancing": "round_robin", "keepalive": 16, "servers": [{"address": address}]}
    row: dict[str, Any] = {"match": "", "pattern": path, "handler": "proxy", "upstream_tls": match["scheme"] == "https"}
    row["upstream"] = made.draft.named(made.draft.upstreams, slug(match["server"], "upstream"), servers)
    row["proxy_uri"] = "" if uri == path else uri
    if found := _location(made, row):
        return f"-{found}"
    kept = any(value.lower() == "on" for value in made.values("proxypreservehost"))
    more = "; parameters are not carried over" if len(node.args) > 2 else ""
    return f"!the upstream gets the client's Host{more}" if not kept or more else ""


def preserve_host(made: Host, node: Node) -> str | None:
    return "" if node.value.lower() == "on" else "!the upstream gets the client's Host"


def files_match(made: Host, node: Node) -> str | None:
    """PHP by FPM, as Debian's php-fpm configuration writes it."""
    body = node.body or ()
    handlers = [item for item in body if item.low == "sethandler"]
    if node.value not in PHP_FILES or len(body) != 1 or not handlers:
        return None
    match = FPM.match(handlers[0].value)
    address = (match["socket"] or match["address"]) if match else ""
    if not address or fits(validators.validate_upstream_address, address):
        return None
    pool = made.draft.named(made.draft.php_pools, "php", {"address": address, "settings": {}})
    pattern = r"\.php$" if "|" not in node.value else r"\.ph(?:ar|p|tml)$"
    return _location(made, {"match": "~", "pattern": pattern, "handler": "php", "php_pool": pool})
