"""Find the Apache modules that a site's directives need, including their dependencies."""

from __future__ import annotations

from panel.rendering.spec import WebServerSpec
from panel.rendering.tree import Directive, Node

OF_DIRECTIVE = {
    "RewriteEngine": "rewrite",
    "Header": "headers",
    "RequestHeader": "headers",
    "Alias": "alias",
    "DirectorySlash": "dir",
    "DirectoryIndex": "dir",
    "FallbackResource": "dir",
    "SSLEngine": "ssl",
    "SSLProxyEngine": "ssl",
    "ExpiresActive": "expires",
    "AddOutputFilterByType": "deflate",
    "SetEnv": "env",
    "UnsetEnv": "env",
    "AllowMethods": "allowmethods",
    "AuthType": "auth_basic",
    "AuthUserFile": "authn_file",
    "ProxyFCGISetEnvIf": "proxy_fcgi",
    "ProxyPassMatch": "proxy_http",
    "BalancerMember": "proxy_balancer",
    "CacheEnable": "cache_disk",
}
NO_GRPC = "Apache's prefork MPM does not support HTTP/2, which gRPC needs; use the event or worker MPM"
OF_SCHEME = {"uwsgi": "proxy_uwsgi", "h2": "proxy_http2", "h2c": "proxy_http2"}
NEEDS = {
    "ssl": ("socache_shmcb",),
    "brotli": ("filter",),
    "cache_disk": ("cache",),
    "deflate": ("filter",),
    "auth_basic": ("authn_core", "authz_core", "authz_user"),
    "authn_file": ("authn_core",),
    "proxy_fcgi": ("proxy",),
    "proxy_http": ("proxy",),
    "proxy_http2": ("proxy", "http2"),
    "proxy_uwsgi": ("proxy",),
    "proxy_balancer": ("proxy", "slotmem_shm", "lbmethod_byrequests", "lbmethod_bybusyness"),
}
WITH_CONF = frozenset(
    {"alias", "autoindex", "brotli", "cache_disk", "deflate", "dir", "http2", "mime", "proxy", "proxy_balancer", "ssl"}
)


def needed(nodes: tuple[Node, ...]) -> set[str]:
    """Return the names (without `mod_`) of the modules that the directives `nodes` need, except modules that every
    httpd has.
    """
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Directive):
            found |= _of(node)
            found |= needed(node.body or ())
    for name in tuple(found):
        found |= set(NEEDS.get(name, ()))
    return found


def _of(node: Directive) -> set[str]:
    if node.name == "SetHandler" and node.args[0].startswith("proxy:"):
        return {"proxy_fcgi"}
    if node.name == "ProxyPassMatch" and (name := _of_scheme(node)):
        return {name}
    if node.name == "BalancerMember" and (name := _of_scheme(node)):
        return {"proxy_balancer", name}
    if node.name == "Protocols" and any(word.startswith("h2") for word in node.args):
        return {"http2"}
    if node.name == "AddOutputFilterByType" and node.args[0] == "BROTLI_COMPRESS":
        return {"brotli"}
    if node.name == "Options" and any(word.endswith("Indexes") and word[0] != "-" for word in node.args):
        return {"autoindex"}
    if node.name == "Require" and "ip" in node.args:
        return {"authz_host"}
    return {OF_DIRECTIVE[node.name]} if node.name in OF_DIRECTIVE else set()


def _of_scheme(node: Directive) -> str:
    """Return the module for the scheme of a proxy target; "" if no module is needed.

    The target is a URL, or the path of a socket and a URL: `unix:/path|fcgi://host`.
    """
    return OF_SCHEME.get(node.args[0].rpartition("|")[2].partition("://")[0], "")


def missing(nodes: tuple[Node, ...], web_server: WebServerSpec) -> set[str]:
    """Return the modules that the directives `nodes` need and the web server does not load.

    The set is empty if Paddock does not know which modules the web server loads.
    """
    if not web_server.modules:
        return set()
    loaded = {name.removeprefix("mod_").removesuffix("_module") for name in web_server.modules}
    return needed(nodes) - loaded


def mpm(web_server: WebServerSpec) -> str:
    """Return the name of the web server's multi-processing module: mpm_prefork, mpm_worker, or else mpm_event."""
    loaded = {name.removeprefix("mod_").removesuffix("_module") for name in web_server.modules}
    return next((name for name in ("mpm_prefork", "mpm_worker") if name in loaded), "mpm_event")
