"""The one exception that an operation raises for what the panel can act on."""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Refusal(Exception):
    """The operation was not done. `code` is one of those in agents/protocol.py; `detail` holds its particulars.

    The message names the object, says what is wrong and what to do, and never holds a file's content.
    """

    def __init__(self, code: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


class Cancelled(Refusal):
    """The panel took its request back; nothing was changed."""

    def __init__(self, message: str = "cancelled before anything was changed") -> None:
        super().__init__("cancelled", message)


def no_space(error: OSError, place: str) -> Exception:
    """A full disk in words; any other error as it is."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    return Refusal("failed", "the disk with %s is full; free some space, then run again" % place)
