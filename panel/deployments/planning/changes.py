"""The change that a deployment makes to one site, as data for planning and execution."""

from __future__ import annotations

from dataclasses import dataclass

from panel.deployments.models import Revision
from panel.websites.models import Site


@dataclass(frozen=True)
class Change:
    """Change of one site on a host from its live revision (`old`) to a new one (`new`).

    `old` is None if the site is not deployed, `new` if the deployment removes it. `version` is the version of the draft
    that `new` was rendered from, None without a draft. `disabled_before` and `disabled_after`: the revision whose files
    stay on the host while the site is disabled, before and after (disabled_files.py).
    """

    site: Site
    old: Revision | None
    new: Revision | None
    version: int | None = None
    disabled_before: Revision | None = None
    disabled_after: Revision | None = None
