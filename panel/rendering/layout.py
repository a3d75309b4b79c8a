"""Where files lie. Which files are whose:

- a *site's* files hold only what that site says and change only with it: its server blocks, upstreams, zones and
  password files;
- an *install's* files hold what a server may say only once for all its sites: Apache's `Listen` lines and modules,
  OpenLiteSpeed's listeners with their maps. They follow from all live sites of the install, so a deployment writes
  the changed site's files and `render_install` of all that are live after it;
- the *main* file is rendered only where the panel manages it (`EngineInstall.manages_main_config`).
"""

from __future__ import annotations

from posixpath import dirname, normpath

from panel.rendering import checks, handlers
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import InstallSpec, RenderedFile, SiteSpec

DISABLED = ".disabled"  # what conf.d/*.conf does not fit


def enabled(install: InstallSpec, name: str, text: str, *, link: str = "") -> list[RenderedFile]:
    """`name`.conf where the install's layout keeps it, live; `link` names the sites-enabled link otherwise."""
    root = install.config_root
    if install.layout == "sites":
        available = RenderedFile(f"{root}/sites-available/{name}.conf", text)
        target = f"../sites-available/{name}.conf"
        return [available, RenderedFile(f"{root}/sites-enabled/{link or name}.conf", link_target=target)]
    if install.layout != "conf_d":
        raise NotExpressible("/layout", f"{install.engine} has no layout “{install.layout}”; use conf_d or sites")
    return [RenderedFile(f"{root}/conf.d/{link or name}.conf", text)]


def at_rest(path: str, install: InstallSpec) -> str:
    """Where a file of a site lies while the site is disabled; "" where it goes. What is not what the server looks for
    stays as it is: the file in sites-available, certificates, passwords. OpenLiteSpeed has no such place."""
    if install.engine == "openlitespeed" or dirname(path) == f"{install.config_root}/sites-enabled":
        return ""
    return path + DISABLED if dirname(path) == f"{install.config_root}/conf.d" else path


def password_files(spec: SiteSpec) -> list[RenderedFile]:
    """The htpasswd files of the site's locations, once per path. Workers read them, so not only root may."""
    found: dict[str, RenderedFile] = {}
    for b, server_block in enumerate(spec.blocks):
        for n, location in enumerate(server_block.locations):
            if (auth := location.basic_auth) is None:
                continue
            at = f"/blocks/{b}/locations/{n}/basic_auth"
            text = handlers.htpasswd(auth, at)
            path = normpath(checks.path(auth.path, f"{at}/path"))
            if path in found and found[path].text != text:
                raise NotExpressible(f"{at}/path", f"{path} is used by two locations with different users")
            found[path] = RenderedFile(path, text, mode=0o644, is_secret=True)
    return list(found.values())
