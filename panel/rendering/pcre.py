"""Match users' regular expressions as the servers do, with limits (decision 0411).

nginx, Apache and OpenLiteSpeed use PCRE2 on bytes, and so does this module, through the system's library. A match stops
after MATCH_LIMIT steps; `budget` limits the total time of several matches. No other module may run a user's expression.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any

from panel.rendering.errors import NotExpressible

MATCH_LIMIT = 500_000  # PCRE2 steps of one match: about 25 ms
DEPTH_LIMIT = 50_000  # backtracking depth
HEAP_LIMIT_KIB = 16_384
BUDGET_S = 0.3

_CASELESS = 0x00000008
_ERROR_NO_MATCH = -1
_ERRORS_LIMIT = {-47, -53, -63}  # error codes of the match, depth and heap limits
_INFO_NAME_COUNT, _INFO_NAME_SIZE, _INFO_NAME_TABLE = 17, 18, 19
_UNSET = ctypes.c_size_t(-1).value

_Limits = tuple[float, list[float]]  # allowed seconds, used seconds
_budget: ContextVar[_Limits | None] = ContextVar("pcre_budget", default=None)


class Unusable(NotExpressible):
    """Error for a regular expression, `pattern`, that PCRE2 cannot compile or evaluate."""

    def __init__(self, pattern: str, message: str) -> None:
        super().__init__("/", message)
        self.pattern = pattern


class TooSlow(Unusable):
    """Error for a match that needs more steps than allowed; the regular expression might slow down the server too."""

    def __init__(self, pattern: str) -> None:
        super().__init__(
            pattern,
            f"The regular expression “{pattern}” takes too long. Avoid nested repetition such as (a+)+ and "
            "alternatives that begin alike.",
        )


class Missing(NotExpressible):
    def __init__(self) -> None:
        super().__init__(
            "/", "Paddock cannot evaluate regular expressions: install libpcre2-8 on the host of the panel."
        )


@contextmanager
def budget(seconds: float = BUDGET_S) -> Iterator[None]:
    """Limit the total time of all matches in the `with` block; a match that begins after that time raises TooSlow."""
    token = _budget.set((seconds, [0.0]))
    try:
        yield
    finally:
        _budget.reset(token)


@cache
def _library() -> ctypes.CDLL:
    """Return PCRE2 for 8-bit characters as a typed library; raise Missing if the system lacks it."""
    for name in ("libpcre2-8.so.0", ctypes.util.find_library("pcre2-8")):
        try:
            if name:
                return _typed(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    raise Missing


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the argument and result types of the PCRE2 functions that are used (pcre2api(3)); return the library."""
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    types: dict[str, tuple[Any, list[Any]]] = {
        "compile": (pointer, [ctypes.c_char_p, size, number, pointer, pointer, pointer]),
        "code_free": (None, [pointer]),
        "pattern_info": (ctypes.c_int, [pointer, number, pointer]),
        "get_error_message": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p, size]),
        "match_context_create": (pointer, [pointer]),
        "set_match_limit": (ctypes.c_int, [pointer, number]),
        "set_depth_limit": (ctypes.c_int, [pointer, number]),
        "set_heap_limit": (ctypes.c_int, [pointer, number]),
        "match_data_create_from_pattern": (pointer, [pointer, pointer]),
        "match_data_free": (None, [pointer]),
        "match": (ctypes.c_int, [pointer, ctypes.c_char_p, size, size, number, pointer, pointer]),
        "get_ovector_count": (number, [pointer]),
        "get_ovector_pointer": (ctypes.POINTER(size), [pointer]),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, f"pcre2_{name}_8")
        function.restype, function.argtypes = result, arguments
    return library


@cache
def _context(match_limit: int) -> int:
    """Return a PCRE2 match context with the limits of steps, depth and memory. All threads share it, because it is
    read-only.
    """
    library = _library()
    context: int = library.pcre2_match_context_create_8(None)
    library.pcre2_set_match_limit_8(context, match_limit)
    library.pcre2_set_depth_limit_8(context, DEPTH_LIMIT)
    library.pcre2_set_heap_limit_8(context, HEAP_LIMIT_KIB)
    return context


class Pattern:
    """One compiled regular expression. Threads may share it, because each match has its own data."""

    def __init__(self, pattern: str, nocase: bool) -> None:
        """Compile the regular expression; raise NotExpressible if that fails."""
        self._library = _library()
        self.pattern = pattern
        self._code: int | None = None
        error, offset = ctypes.c_int(), ctypes.c_size_t()
        source = pattern.encode("utf-8", "surrogateescape")
        self._code = self._library.pcre2_compile_8(
            source, len(source), _CASELESS if nocase else 0, ctypes.byref(error), ctypes.byref(offset), None
        )
        if not self._code:
            words = (
                f"“{pattern}” is not a valid regular expression: {self._words(error.value)} at character "
                f"{offset.value + 1}"
            )
            raise Unusable(pattern, words)
        self.names = self._names()

    def __del__(self) -> None:
        if self._code:
            self._library.pcre2_code_free_8(self._code)

    def _words(self, error: int) -> str:
        text = ctypes.create_string_buffer(256)
        self._library.pcre2_get_error_message_8(error, text, len(text))
        return text.value.decode("ascii", "replace")

    def _info(self, what: int, kind: Any) -> Any:
        found = kind()
        self._library.pcre2_pattern_info_8(self._code, what, ctypes.byref(found))
        return found.value

    def _names(self) -> list[tuple[str, int]]:
        """Return the named groups with their numbers (pcre2api(3), PCRE2_INFO_NAMETABLE)."""
        count, size = self._info(_INFO_NAME_COUNT, ctypes.c_uint32), self._info(_INFO_NAME_SIZE, ctypes.c_uint32)
        if not count:
            return []
        table = ctypes.string_at(self._info(_INFO_NAME_TABLE, ctypes.c_void_p), count * size)
        rows = [table[start : start + size] for start in range(0, len(table), size)]
        return [(row[2:].split(b"\0", 1)[0].decode("ascii"), row[0] << 8 | row[1]) for row in rows]

    def groups(self, text: str, match_limit: int = MATCH_LIMIT) -> list[str | None] | None:
        """Return the match as a list: the matched text, then each group, None for an unused group. Return None without
        a match.

        Raises TooSlow beyond the limits.
        """
        library, subject = self._library, text.encode("utf-8", "surrogateescape")
        data = library.pcre2_match_data_create_from_pattern_8(self._code, None)
        try:
            result = library.pcre2_match_8(self._code, subject, len(subject), 0, 0, data, _context(match_limit))
            if result in _ERRORS_LIMIT:
                raise TooSlow(self.pattern)
            if result == _ERROR_NO_MATCH:
                return None
            if result < 0:
                raise Unusable(self.pattern, f"PCRE2 cannot evaluate “{self.pattern}”: {self._words(result)}")
            ends, count = library.pcre2_get_ovector_pointer_8(data), library.pcre2_get_ovector_count_8(data)
            pairs = [(ends[2 * number], ends[2 * number + 1]) for number in range(count)]
        finally:
            library.pcre2_match_data_free_8(data)
        return [None if a == _UNSET else subject[a:b].decode("utf-8", "surrogateescape") for a, b in pairs]


@lru_cache(maxsize=512)
def compiled(pattern: str, nocase: bool = False) -> Pattern:
    """Return the compiled pattern; raise NotExpressible if PCRE2 rejects it or is not installed."""
    return Pattern(pattern, nocase)


def search(pattern: str, text: str, *, nocase: bool = False) -> dict[str, str] | None:
    """Return captures by number and name if `pattern` is found in `text`, else None. Raise TooSlow beyond
    the limits.
    """
    limits = _budget.get()
    if limits is not None and limits[1][0] > limits[0]:
        raise TooSlow(pattern)
    began = time.monotonic()
    try:
        expression = compiled(pattern, nocase)
        found = expression.groups(text)
    finally:
        if limits is not None:
            limits[1][0] += time.monotonic() - began
    if found is None:
        return None
    captures = {str(number): value or "" for number, value in enumerate(found) if number}
    for name, number in expression.names:
        captures[name] = captures.get(name) or found[number] or ""
    return captures
