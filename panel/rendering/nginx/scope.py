"""State that the server blocks of one site share while their nginx configuration is rendered."""

from __future__ import annotations

from dataclasses import dataclass

from panel.rendering import challenges, logformats
from panel.rendering.checks import version_of
from panel.rendering.nginx.quoting import Dollars, prefix, variable
from panel.rendering.spec import SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, block, directive


@dataclass(frozen=True)
class Dialect:
    """Syntax that depends on the version and modules of nginx or gallop."""

    http2_directive: bool  # `http2 on;` since 1.25.1; earlier a parameter of `listen`
    http3: bool  # since 1.25.0, if the module is built in
    brotli: bool  # built into gallop; in nginx if the module ngx_brotli is present
    confine_files: bool  # some versions of gallop only
    tls_challenges: bool  # some versions of gallop only

    @classmethod
    def of(cls, web_server: WebServerSpec) -> Dialect:
        if web_server.engine == "native":
            confines = "confine_files" in web_server.modules
            shows = "acme_tls_challenges" in web_server.modules
            return cls(http2_directive=True, http3=True, brotli=True, confine_files=confines, tls_challenges=shows)
        version = version_of(web_server)
        known = not web_server.modules or any("v3" in module for module in web_server.modules)
        return cls(
            http2_directive=version >= (1, 25, 1),
            http3=version >= (1, 25, 0) and known,
            brotli=any("brotli" in module for module in web_server.modules),
            confine_files=False,
            tls_challenges=False,
        )


class Scope:
    def __init__(self, spec: SiteSpec, web_server: WebServerSpec) -> None:
        self.spec = spec
        self.web_server = web_server
        self.dialect = Dialect.of(web_server)
        self.shows_challenges = self.dialect.tls_challenges and challenges.shows_over_tls(spec)
        self.dollars = Dollars(spec.name)
        self.zones: list[Directive] = []
        self.maps: list[Directive] = []
        self.own_variables: frozenset[str] = frozenset()  # defined here, so header values may use them
        self.websocket = False
        self.brotli = False  # whether the current server block compresses with Brotli
        self.formats: dict[str, Directive] = {}
        self.caches: dict[str, Directive] = {}  # keyed by zone name
        self.log_roots = (web_server.log_dir, *web_server.site_roots)

    def variable(self, name: str) -> str:
        return variable(self.spec.name, name)

    def name(self, name: str) -> str:
        """Return `name` with the site's prefix, for a zone or log format; for names of variables see `variable`."""
        return f"{prefix(self.spec.name)}_{name}"

    def zone(self, kind: str, at: str) -> str:
        """Return the name of a location's shared memory zone for a rate limit.

        `kind`: "req" (requests) or "conn" (connections). `at`: the location's JSON pointer.
        """
        numbers = "_".join(part for part in at.split("/") if part.isdigit())
        return self.name(f"{kind}_{numbers}")

    def shared(self) -> list[Directive]:
        """Return the directives at http level that the site's server blocks need."""
        found: list[Directive] = []
        if self.dollars.used:
            dollar = directive("default", "$")
            found.append(block("geo", f"${self.dollars.variable}", body=[dollar], comment="A literal dollar sign"))
        if self.websocket:
            body = [directive("default", "upgrade"), directive("", "")]
            found.append(block("map", "$http_upgrade", f"${self.variable('connection')}", body=body))
        return [*found, *self.formats.values(), *self.maps, *self.zones, *self.caches.values()]

    def log_format(self, chosen: str, field: str) -> list[str]:
        """Return the last arguments of an access_log directive: [name of the site's log format], or [] for nginx's
        default format.

        The format is declared at http level (`shared`).
        """
        if not logformats.check(chosen, field):
            return []
        name = self.name(f"log_{chosen}")
        escape = ["escape=json"] if chosen == "json" else []
        self.formats[chosen] = directive("log_format", name, *escape, logformats.NGINX[chosen])
        return [name]

    def only_encrypted(self, name: str, value: str) -> str:
        """Return a new variable (with `$`) that contains `value` on TLS connections and is empty otherwise."""
        variable = self.variable(name)
        self.own_variables |= {variable}
        self.maps.append(block("map", "$https", f"${variable}", body=[directive("on", value)]))
        return f"${variable}"
