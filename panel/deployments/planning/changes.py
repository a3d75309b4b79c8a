"""Effect of a deployment on one site."""

from __future__ import annotations

from dataclasses import dataclass

from panel.deployments.models import Revision
from panel.websites.models import Site


@dataclass(frozen=True)
class Change:
    """One site from what stands (`old`) to what will stand (`new`); None: nothing. `inputs` names all that the new
    files were rendered from (inputs.py), "" when they were not rendered just now.

    `rested` and `rests`: the revision whose files lie on the host, disabled, before and after (resting.py).
    """

    site: Site
    old: Revision | None
    new: Revision | None
    inputs: str = ""
    rested: Revision | None = None
    rests: Revision | None = None
