"""Check that Apache expressions in a site's raw directives use only allowed functions and variables.

Source: https://httpd.apache.org/docs/2.4/expr.html, server/util_expr_eval.c.
"""

from __future__ import annotations

import re

# Functions that read only the request and its variables. Not listed: file(), filesize() and filemod() read files, env()
# and osenv() read the server's environment, and ldap() queries a directory.
FUNCTIONS = frozenset(
    {
        *("req", "http", "req_novary", "resp", "reqenv", "note", "replace"),
        *("tolower", "toupper", "escape", "unescape", "base64", "unbase64", "md5", "sha1"),
    }
)
_CALL = re.compile(r"\b(file|filesize|filemod|osenv|env|ldap|listfuncs|peerextlist)\s*\(", re.IGNORECASE)
_VARIABLE = re.compile(r"%\{([^{}]*)\}?")
_STATE = re.compile(r"(?<![\w)\]}'\"/])-([defshLxFUA])(?![A-Za-z0-9_-])\s*(\S+)")
_OWN_FILE = re.compile(
    r"['\"]?%\{(?:DOCUMENT_ROOT|REQUEST_FILENAME|SCRIPT_FILENAME|REQUEST_URI)\}"
    r"(?:[A-Za-z0-9._/-]|%\{REQUEST_(?:URI|FILENAME)\}|\$[0-9])*['\")]*\Z"
)
OTHERS_FILES = "the condition tests a file that a visitor can choose; test %{REQUEST_FILENAME} instead"


def expression_problem(text: str) -> str:
    """Return an error message if a site must not use the condition (of <If>, Require expr or expr=); "" if it is
    allowed.
    """
    if found := _CALL.search(text):
        return f"the function {found[1]}() reads files or the web server's environment; remove it"
    for state in _STATE.finditer(text):
        if not is_own_file(state[2]):
            return OTHERS_FILES
    return string_problem(text)


def string_problem(text: str) -> str:
    """Return an error message if a `%{…}` in a text (of ErrorDocument or Redirect, for example) is invalid or calls a
    function that sites must not use; "" if the text is allowed.
    """
    for found in _VARIABLE.finditer(text):
        function, colon, _argument = found[1].partition(":")
        if colon and function.strip().lower() not in FUNCTIONS:
            return (
                f"sites cannot use %{{{found[1]}}}; use a variable or one of the functions "
                f"{', '.join(sorted(FUNCTIONS))}"
            )
        if not found[0].endswith("}") or (colon and _CALL.search(found[1])):
            return f"%{{{found[1]}}} is not a valid expression; correct it"
    return ""


def is_own_file(value: str) -> bool:
    """Return whether the path in a file test stays in the site's document root: it begins with a variable such as
    `%{DOCUMENT_ROOT}` or `%{REQUEST_FILENAME}`, and contains no `..`.
    """
    return ".." not in value and _OWN_FILE.match(value) is not None
