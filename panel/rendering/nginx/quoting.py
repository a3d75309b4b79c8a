"""Quote any value so that nginx's lexer reads exactly that value.

Source: ngx_conf_read_token (core/ngx_conf_file.c). A word ends at whitespace, `;` or `{`. Quotes open only at the start
of a word. Within a word a backslash escapes quotes, backslashes, t, r and n; before any other character, the backslash
is part of the word. Words longer than the 4096-byte buffer are rejected. In directives that accept variables, quotes do
not protect `$`; Dollars.literal does.
"""

from __future__ import annotations

import hashlib
import re

from panel.rendering import variables
from panel.rendering.errors import NotExpressible
from panel.rendering.tree import Directive

MAX_WORD_BYTES = 4000
_BARE = re.compile(r"[A-Za-z0-9_./:=~^*+,@%&?|()<>!$\[\]\\-]+\Z")
_ESCAPED = re.compile(r"\\(?=[\"'\\trn\n\t]|\Z)|\"")
_BARE_TROUBLE = re.compile(r"\\(?=[\"'\\trn;{]|\Z)")


def word(value: str) -> str:
    """Return one word of nginx's configuration: unquoted if nginx reads it unchanged, otherwise in double quotes."""
    if _BARE.match(value) and not _BARE_TROUBLE.search(value):
        return value
    quoted = _ESCAPED.sub(lambda found: "\\" + found[0], value)
    return '"' + quoted.replace("\n", "\\n").replace("\t", "\\t") + '"'


def line(directive: Directive) -> str:
    return " ".join(word(part) for part in (directive.name, *directive.args))


def bounded(value: str, field: str) -> str:
    size = len(value.encode())
    if size > MAX_WORD_BYTES:
        raise NotExpressible(
            field, f"the value is {size} bytes long; nginx accepts at most {MAX_WORD_BYTES} bytes per value"
        )
    return value


def no_variables(value: str, field: str) -> str:
    """Return `value`, a file name for a directive that would expand variables.

    Raises NotExpressible if the name contains `$`, or is longer than nginx accepts.
    """
    if "$" in value:
        raise NotExpressible(field, "nginx would expand $ as a variable; use a name without $")
    return bounded(value, field)


class Dollars:
    """Writer of values for directives that expand variables.

    A literal `$` is written as a variable with the value `$`. A `geo` block defines this variable, because `geo` does
    not expand its values. `used`: the site needs this `geo` block.
    """

    def __init__(self, site: str) -> None:
        self.variable = variable(site, "dollar")
        self.used = False

    def literal(self, value: str, field: str) -> str:
        """Return an nginx value that evaluates to exactly `value`."""
        if "$" in value:
            self.used = True
            value = value.replace("$", "${" + self.variable + "}")
        return bounded(value, field)

    def complex(self, value: str, field: str, captures: frozenset[str] = frozenset()) -> str:
        """Return `value`, a value of a SiteSpec with variables, in nginx's notation. `captures`: names of captures that
        it can use.
        """
        parts = variables.parse(value, field, captures=captures)
        spelled = []
        for number, part in enumerate(parts):
            following = parts[number + 1] if number + 1 < len(parts) else ""
            if isinstance(part, str):
                spelled.append(self.literal(part, field))
            else:
                spelled.append(_reference(part, following))
        return bounded("".join(spelled), field)


def _reference(variable: variables.Variable, following: variables.Part) -> str:
    joins = isinstance(following, str) and re.match(r"[A-Za-z0-9_]", following) is not None
    return f"${{{variable.name}}}" if joins and not variable.is_capture else f"${variable.name}"


# The limit of nginx's variables_hash_bucket_size of 64 (NGX_HASH_ELT_SIZE in core/ngx_hash.h), minus three.
LONGEST_VARIABLE = 43


def variable(site: str, name: str) -> str:
    """Return the nginx name of a site's variable `name`: with the site's prefix, or with a hash of the site's name if
    the name would be too long for nginx.
    """
    found = f"{prefix(site)}_{name}"
    if len(found) <= LONGEST_VARIABLE:
        return found
    return f"paddock_{hashlib.sha256(site.encode()).hexdigest()[:10]}_{name}"


def prefix(site: str) -> str:
    """Return the prefix of a site's zones and variables: paddock_ and the site's name with `_` for `-`.

    Site names contain no `_`, so each site has its own prefix.
    """
    return "paddock_" + site.replace("-", "_")
