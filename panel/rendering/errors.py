"""Exception for values of a SiteSpec that cannot be rendered."""

from __future__ import annotations


class NotExpressible(ValueError):
    """Error for a value that the engine's grammar cannot express, or would interpret differently.

    `field` is a JSON pointer into the SiteSpec (`/blocks/0/locations/2/alias`); `message` names the problem and a valid
    alternative. Nothing was rendered.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
