"""Map directives of Apache that decide how paths are handled: aliases, redirects, rewriting, PHP.

Functions that map a directive return "" if it was mapped, "!note" if the site differs slightly, "-note" if sites must
not have the directive. Other text and None mean to keep the directive as a raw directive, with the text as the reason.
"""

from __future__ import annotations

import re

from panel.imports.mapping import apache_proxy, apache_rewrites
from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.rendering import rewriting
from panel.rendering.spec import Rewrite
from panel.websites import shapes, validators
from panel.websites.definitions import LocationData, PhpPoolData, RewriteData

REDIRECTS = {"": 302, "temp": 302, "permanent": 301, "seeother": 303}
PHP_FILES = (r"\.php$", r".+\.php$", r"\.ph(?:ar|p|tml)$", r".+\.ph(?:ar|p|tml)$", r".+\.ph(ar|p|tml)$")
FPM = re.compile(r"proxy:(?:(?P<socket>unix:/[^|]+)\|fcgi://.*|fcgi://(?P<address>[^/]+)/?)\Z")
NO_REDIRECT = "sites do not support this form of redirect"
TO_HTTPS = re.compile(r"https://%\{(?:SERVER_NAME|HTTP_HOST)\}(?:%\{REQUEST_URI\}|/\$1)\Z")


def alias(made: Host, node: Node) -> str | None:
    """Map an `Alias` to a location. Return "" if mapped, "!note" if a second location with a redirect was added, or the
    reason if no location can express the alias.

    An alias that ends in a slash is a path prefix. An alias without a final slash matches whole segments, so a second
    location redirects the path without the slash to the path with the slash.
    """
    path, folder = _aliased(node)
    if not path:
        return "an alias without a final slash does not match the same paths as a location"
    if fits(validators.validate_path, folder) or fits(validators.validate_uri_path, path):
        return "sites do not support this path of the alias"
    if why := made.add({"pattern": path, "alias": folder}):
        return why
    if node.value.endswith("/"):
        return ""
    led: RewriteData = {"pattern": f"^{re.escape(node.value)}$", "replacement": path, "flag": "permanent"}
    made.add({"match": "=", "pattern": node.value, "rewrites": [led]})
    return f"!the site gets a location that redirects {node.value} to {path}"


def _aliased(node: Node) -> tuple[str, str]:
    """Return the path prefix and the folder of an Alias, each with a final slash; ("", "") if the Alias names a file or
    has a slash at the end of only one of the two.
    """
    if len(node.args) != 2 or node.value == "/":
        return "", ""
    path, folder = node.args
    if path.endswith("/") != folder.endswith("/"):
        return "", ""
    if path.endswith("/"):
        return path, folder
    return ("", "") if "." in folder.rpartition("/")[2] else (f"{path}/", f"{folder}/")


def redirect(made: Host, node: Node) -> str | None:
    """Map a redirect of all paths to a location, and a redirect of single paths to a rewrite. Apache's redirects match
    whole path segments, which a rewrite's regular expression can express.
    """
    args = list(node.args)
    code: int | None = {"redirectpermanent": 301, "redirecttemp": 302}.get(node.low)
    if code is None:
        word = args[0].lower() if len(args) == 3 else ""
        code = int(word) if word.isdigit() else REDIRECTS.get(word)
        args = args[1:] if len(args) == 3 else args
    if node.low == "redirectmatch" or len(args) != 2 or args[0] != "/":
        return _moved(made, code, args, is_expression=node.low == "redirectmatch")
    if code is None or not re.fullmatch(r"https?://[^$%?]+/", args[1]):
        return NO_REDIRECT
    if code not in validators.REDIRECTS:
        return "sites do not support this redirect status"
    return _everything(made, code, args[1].rstrip("/") + "$request_uri")


def _moved(made: Host, code: int | None, args: list[str], *, is_expression: bool) -> str:
    """Map a redirect of single paths to a rewrite of the server block. Both run early: the rewrite before the location
    is chosen, Apache's redirect before all handlers except mod_proxy (hook APR_HOOK_FIRST).
    """
    flag = {301: "permanent", 302: "redirect"}.get(code or 0)
    if flag is None or len(args) != 2 or re.search(r"[%?\\]|\$\D", args[1]):
        return NO_REDIRECT
    if any(item.low in ("proxypass", "proxypassmatch", "rewriterule") for item in made.own):
        return "sites do not keep the order of redirects, ProxyPass, and RewriteRule"
    path, target = args
    if is_expression:
        item: RewriteData = {"pattern": path, "replacement": target, "flag": flag}
    elif "$" in target or not path.startswith("/"):
        return NO_REDIRECT
    elif path.endswith("/"):
        item = {"pattern": f"^{re.escape(path)}(.*)$", "replacement": f"{target}$1", "flag": flag}
    else:
        item = {"pattern": f"^{re.escape(path)}(|/.*)$", "replacement": f"{target}$1", "flag": flag}
    why = fits(shapes.validate_rewrites, [item]) or fits(lambda row: rewriting.check(Rewrite(**row), ""), item)
    if not why:
        made.block.setdefault("rewrites", []).append(item)
    return why


def _everything(made: Host, code: int, value: str) -> str | None:
    row: LocationData = {"pattern": "/", "handler": "return", "return_code": code, "return_value": value}
    found = made.add(row)
    made.ended = made.ended or found == ""
    return found


def rewrite(made: Host, node: Node) -> str | None:
    """Map one directive of mod_rewrite. A common redirect to HTTPS becomes a location. Otherwise, all rules of the
    virtual host are mapped to rewrites of the site, or all stay raw directives in their order.
    """
    upgrades, _servers = apache_proxy.websockets(made)
    if id(node) in upgrades:
        return ""
    own = [item for item in made.own if id(item) not in upgrades]
    rules = [item for item in own if item.low == "rewriterule"]
    if upgrades and not rules:
        return ""  # no other rule needs the engine
    if len(rules) != 1 or not is_to_https(rules[0]):
        return _rewrites(made, node, own)
    conditions = [item for item in own if item.low == "rewritecond"]
    tls = any(item["tls"] for item in made.block["listens"])
    names = {value.lower() for low in ("servername", "serveralias") for item in made.own if item.low == low
             for value in item.args}  # fmt: skip
    if not apache_rewrites.is_on(made.own) or not apache_rewrites.always_holds(conditions, names, is_tls=tls):
        return "sites do not support the conditions of this rule"
    if node.low != "rewriterule":
        return "!the site redirects every request, so it needs no condition" if node.low == "rewritecond" else ""
    flags = rules[0].args[2].strip("[]").lower().split(",")
    code = next((flag[2:] for flag in flags if flag.startswith("r=")), "302")
    number = int(code) if code.isdigit() else REDIRECTS.get(code)
    return _everything(made, number, "https://$host$request_uri") if number in validators.REDIRECTS else None


def _rewrites(made: Host, node: Node, own: list[Node]) -> str | None:
    if not apache_rewrites.is_on(own):
        return "the rewrite engine is off, so rewrite rules have no effect"
    found = apache_rewrites.found(own)
    if found.why or not (found.rewrites or found.try_files):
        return found.why or None
    made.rules(found.rewrites, found.try_files)
    return f"!{found.note}" if found.note and apache_rewrites.passes_on(node) else ""


def is_to_https(node: Node) -> bool:
    """Return whether a RewriteRule redirects everything to HTTPS."""
    if node.low != "rewriterule" or len(node.args) != 3 or not TO_HTTPS.match(node.args[1]):
        return False
    flags = node.args[2].strip("[]").lower().split(",")
    everything = node.args[0] in (
        "^", "^/?(.*)", "^/(.*)", "/(.*)", "^/(.*)$", "^/?(.*)$", "(.*)", "^(.*)$", "^.*$", ".*",
    )  # fmt: skip
    return everything and any(flag == "r" or flag.startswith("r=") for flag in flags)


def files_match(made: Host, node: Node) -> str | None:
    """Map a `<FilesMatch>` that passes PHP files to PHP-FPM, as in Debian's php-fpm configuration."""
    body = node.body or ()
    handlers = [item for item in body if item.low == "sethandler"]
    if node.value not in PHP_FILES or len(body) != 1 or not handlers:
        return None
    match = FPM.match(handlers[0].value)
    address = (match["socket"] or match["address"]) if match else ""
    if not address or fits(validators.validate_upstream_address, address):
        return None
    row: PhpPoolData = {"address": address, "settings": {}}
    pool = made.draft.named(made.draft.php_pools, "php", row)
    pattern = r"\.php$" if "|" not in node.value else r"\.ph(?:ar|p|tml)$"
    return made.add({"match": "~", "pattern": pattern, "handler": "php", "php_pool": pool})
