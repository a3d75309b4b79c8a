"""Paths of rendered files, and their owners.

- A *site's* files depend only on that site: its server blocks, upstreams, zones and password files.
- A *web server's* files hold settings that exist once for all sites: Apache's `Listen` lines and modules,
  OpenLiteSpeed's listeners with their maps. They depend on all live sites, so a deployment writes the changed
  site's files and the result of `render_web_server` for all sites that are live afterwards.
- The *main* file is rendered only if the panel manages it (`WebServer.manages_main_config`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from posixpath import dirname, normpath

from panel.rendering import checks, handlers, streams
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import RenderedFile, ServerBlock, SiteSpec, StreamServer, TlsFiles, WebServerSpec

DISABLED = ".disabled"  # not matched by conf.d/*.conf and stream.d/*.conf
_KEEPS_DISABLED = frozenset({"nginx", "native", "apache"})


def enabled(web_server: WebServerSpec, name: str, text: str, *, link: str = "") -> list[RenderedFile]:
    """Return the files with which the web server loads the configuration `text`: `name`.conf in sites-available with a
    link to it in sites-enabled, or a file in conf.d, as its layout requires.

    `link`: name of the link in sites-enabled, or of the file in conf.d, if it is not `name`.
    """
    root = web_server.config_root
    if web_server.layout == "sites":
        available = RenderedFile(f"{root}/sites-available/{name}.conf", text)
        target = f"../sites-available/{name}.conf"
        return [available, RenderedFile(f"{root}/sites-enabled/{link or name}.conf", link_target=target)]
    if web_server.layout != "conf_d":
        raise NotExpressible(
            "/layout", f"{web_server.engine} does not support the layout “{web_server.layout}”; use conf_d or sites"
        )
    return [RenderedFile(f"{root}/conf.d/{link or name}.conf", text)]


def keeps_disabled(engine: str) -> bool:
    """Return whether the web server's layout can keep files that the server does not load: as
    conf.d/NAME.conf.disabled, or in sites-available without a link. OpenLiteSpeed's layout cannot.
    """
    return engine in _KEEPS_DISABLED


def disabled_path(path: str, web_server: WebServerSpec) -> str:
    """Return the path of a site's file while the site is disabled; "" if the file is removed.

    Files that the server loads only by a link or a directive keep their path: those in sites-available, certificates,
    passwords.
    """
    if not keeps_disabled(web_server.engine) or dirname(path) == f"{web_server.config_root}/sites-enabled":
        return ""
    loaded = (f"{web_server.config_root}/conf.d", streams.folder(web_server))
    return path + DISABLED if dirname(path) in loaded else path


def tls_files(spec: SiteSpec) -> Iterator[TlsFiles]:
    """Yield the certificate files of each server block and each stream server with TLS."""
    owners: Iterable[ServerBlock | StreamServer] = chain(spec.blocks, spec.stream_servers)
    yield from (owner.tls for owner in owners if owner.tls is not None)


def auxiliary_files(spec: SiteSpec) -> list[RenderedFile]:
    """Return the password files and the CA and revocation list files to which the site's configuration refers."""
    return [*password_files(spec), *client_certificate_files(spec)]


def client_certificate_files(spec: SiteSpec) -> list[RenderedFile]:
    """Return the CA and revocation list files that check clients' certificates, once per path."""
    found: dict[str, RenderedFile] = {}
    for b, server_block in enumerate(spec.blocks):
        if (source := server_block.client_certificates) is None:
            continue
        at = f"/blocks/{b}/client_certificates"
        for name, path, text in (("ca", source.ca_path, source.ca), ("crl", source.crl_path, source.crl)):
            if not text:
                continue
            place = normpath(checks.path(path, f"{at}/{name}_path"))
            if place in found and found[place].text != text:
                raise NotExpressible(f"{at}/{name}_path", f"two server blocks write different contents to {place}")
            found[place] = RenderedFile(place, text if text.endswith("\n") else f"{text}\n", mode=0o644)
    return list(found.values())


def password_files(spec: SiteSpec) -> list[RenderedFile]:
    """Return the password files of the site's locations, once per path.

    All accounts of the host can read them, because worker processes do not run as root.
    """
    found: dict[str, RenderedFile] = {}
    for b, server_block in enumerate(spec.blocks):
        for n, location in enumerate(server_block.locations):
            if (auth := location.basic_auth) is None:
                continue
            at = f"/blocks/{b}/locations/{n}/basic_auth"
            text = handlers.htpasswd(auth, at)
            path = normpath(checks.path(auth.path, f"{at}/path"))
            if path in found and found[path].text != text:
                raise NotExpressible(f"{at}/path", f"two locations write different users to {path}")
            found[path] = RenderedFile(path, text, mode=0o644, is_secret=True)
    return list(found.values())
