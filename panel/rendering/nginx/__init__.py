"""nginx and gallop, which reads nginx's syntax. The files of each site are independent; no files are shared."""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import layout
from panel.rendering.nginx.main import main
from panel.rendering.nginx.quoting import line
from panel.rendering.nginx.site import site
from panel.rendering.spec import InstallSpec, RenderedFile, SiteSpec
from panel.rendering.tree import print_tree

__all__ = ["install_files", "main", "site_files"]


def site_files(spec: SiteSpec, install: InstallSpec) -> list[RenderedFile]:
    text = print_tree("nginx", line, "site.conf.j2", site=spec.name, nodes=site(spec, install))
    return [*layout.enabled(install, spec.name, text), *layout.password_files(spec)]


def install_files(specs: Sequence[SiteSpec], install: InstallSpec) -> list[RenderedFile]:
    return []
