"""What rendering refuses, and where in the SiteSpec the refused value stands."""

from __future__ import annotations


class NotExpressible(ValueError):
    """A value that the engine's grammar cannot carry, or that would mean something else there.

    `field` is a JSON pointer into the SiteSpec (`/blocks/0/locations/2/alias`), `message` says what is wrong with the
    value and what would be right. Nothing was rendered.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
