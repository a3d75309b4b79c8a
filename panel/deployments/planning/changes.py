"""Effect of a deployment on one site."""

from __future__ import annotations

from dataclasses import dataclass

from panel.deployments.models import Revision
from panel.websites.models import Site


@dataclass(frozen=True)
class Change:
    """One site from what stands (`old`) to what will stand (`new`); None: nothing. `version` is the version of the
    draft that `new` says, None when no draft does.

    `rested` and `rests`: the revision whose files lie on the host, disabled, before and after (resting.py).
    """

    site: Site
    old: Revision | None
    new: Revision | None
    version: int | None = None
    rested: Revision | None = None
    rests: Revision | None = None
