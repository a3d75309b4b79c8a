"""Quote values for Apache's words and for the languages inside them: expressions, header formats, rewrite targets.

Source: ap_getword_conf and ap_resolve_env (server/util.c, core.c), util_expr_scan.l, mod_headers and mod_rewrite.
Apache replaces `${NAME}` in every line before it splits the line, even in quotes, so values with `${` cannot be quoted.
"""

from __future__ import annotations

import re

from panel.rendering import variables
from panel.rendering.errors import NotExpressible
from panel.rendering.tree import Directive

_BARE = re.compile(r"[A-Za-z0-9_./:=^*+,@%&?|()!~$\[\]-]+\Z")
_ESCAPED = re.compile(r'\\(?=[\\"]|\Z)|"')  # httpd keeps other backslashes
_REFERENCES = {
    "uri": "REQUEST_URI",
    "args": "QUERY_STRING",
    "query_string": "QUERY_STRING",
    "host": "SERVER_NAME",
    "http_host": "HTTP_HOST",
    "scheme": "REQUEST_SCHEME",
    "server_port": "SERVER_PORT",
    "remote_addr": "REMOTE_ADDR",
    "remote_port": "REMOTE_PORT",
    "remote_user": "REMOTE_USER",
    "request_method": "REQUEST_METHOD",
    "document_root": "DOCUMENT_ROOT",
    "request_filename": "REQUEST_FILENAME",
}
_TLS_REFERENCES = {  # mod_ssl's names: alone in expressions, after `SSL:` in rewrite rules
    "ssl_client_verify": "SSL_CLIENT_VERIFY",
    "ssl_client_s_dn": "SSL_CLIENT_S_DN",
    "ssl_client_i_dn": "SSL_CLIENT_I_DN",
    "ssl_client_serial": "SSL_CLIENT_M_SERIAL",
}
RAW_URI = "PADDOCK_REQUEST_URI"  # environment variable set by rewrite rules: the original path with its query


def word(value: str) -> str:
    if _BARE.match(value):
        return value
    return '"' + _ESCAPED.sub(r"\\\g<0>", value) + '"'


def rewrite_word(value: str) -> str:
    """Quote a word of RewriteCond or RewriteRule, which have no escapes (parseargline in mod_rewrite.c)."""
    if _BARE.match(value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def line(directive: Directive) -> str:
    """Return a directive as one line of configuration; raise NotExpressible if it contains a line break or `${`."""
    quote = rewrite_word if directive.name in ("RewriteCond", "RewriteRule") else word
    text = " ".join([directive.name, *(quote(argument) for argument in directive.args)])
    if "\n" in text or "${" in text:
        raise NotExpressible("/", f"{directive.name} cannot contain a line break or ${{ on Apache; remove it")
    return text


def one_quote(value: str, field: str) -> str:
    """Return `value`, a word of a rewrite rule; raise NotExpressible if it contains both kinds of quotes.

    Rewrite rules have no escapes, so a quoted word cannot contain the quote around it.
    """
    if '"' in value and "'" in value:
        raise NotExpressible(field, "Apache's rewrite rules cannot contain both \" and '; use one of them")
    return value


def plain(value: str, field: str) -> str:
    """Return `value`; raise NotExpressible if it contains `${`, which Apache would expand as a variable."""
    if "${" in value:
        raise NotExpressible(field, "Apache would expand ${ as a variable; use a value without ${")
    return value


def regex(value: str, field: str) -> str:
    """Return a regular expression in which `$[{]` replaces `${`. Both mean the same, but Apache would expand `${` as a
    variable.
    """
    return plain(value.replace("${", "$[{]"), field)


def rewrite_regex(value: str, field: str) -> str:
    r"""Return a regular expression for a rewrite rule: as `regex` does, and with `\x22` for each double quote.

    A double quote itself would end the word.
    """
    return re.sub(r'(\\[^"])|\\?"', lambda found: found[1] or r"\x22", regex(value, field), flags=re.S)


def expression(value: str) -> str:
    """Escape literal text for a string in an Apache expression (ErrorDocument's text, Alias, Header's expr=)."""
    escaped = re.sub(r"[\\%$]", r"\\\g<0>", value)
    return escaped.replace("\\${", "\\$\\{").replace("\n", "\\n").replace("\t", "\\t")


def target(value: str) -> str:
    """Escape literal text for the substitution of RewriteRule or the test string of RewriteCond."""
    return re.sub(r"[\\%$]", r"\\\g<0>", value).replace("\\${", "\\$\\{")


def format_string(value: str, field: str) -> str:
    """Return literal text as a value of Header or RequestHeader: with `%` doubled, or as a string in `expr=` if the
    text is empty, contains `${` or begins with `expr=`.
    """
    if "${" in value or value.startswith("expr=") or value == "":
        return "expr=" + expression(value)
    return value.replace("%", "%%")


class Interpolator:
    """Translator of values with nginx's variables to Apache's two notations: for expressions, and for rewrite rules.

    `captures` maps the name of each capture to NAME of the variable MATCH_NAME that contains the capture (for
    expressions), or to the number of its group (for rewrite rules).
    """

    def __init__(self, server_name: str, captures: dict[str, str], names: frozenset[str]) -> None:
        self.server_name = server_name
        self.captures = captures
        self.names = names
        self.uses_raw_uri = False

    def of_the_rule(self) -> Interpolator:
        """Return an Interpolator that takes `$uri` from group 0 of a rewrite rule, whose pattern must match the whole
        path.
        """
        return Interpolator(self.server_name, {**self.captures, "uri": "0"}, self.names)

    def in_expression(self, value: str, field: str) -> str:
        parts = variables.parse(value, field, captures=self.names)
        return "".join(
            expression(part) if isinstance(part, str) else self._reference(part, field, "env", "req") for part in parts
        )

    def in_target(self, value: str, field: str) -> str:
        parts = variables.parse(value, field, captures=self.names)
        return one_quote(
            "".join(
                target(part) if isinstance(part, str) else self._reference(part, field, "ENV", "HTTP") for part in parts
            ),
            field,
        )

    def header(self, value: str, field: str) -> str:
        parts = variables.parse(value, field, captures=self.names)
        if all(isinstance(part, str) for part in parts):
            return format_string("".join(str(part) for part in parts), field)
        return "expr=" + self.in_expression(value, field)

    def _reference(self, variable: variables.Variable, field: str, environment: str, request: str) -> str:
        name = variable.name
        if name in self.captures:
            found = self.captures[name]
            return f"${found}" if environment == "ENV" else f"%{{env:MATCH_{found}}}"
        if name == "request_uri":
            self.uses_raw_uri = True
            return f"%{{{'ENV' if environment == 'ENV' else 'reqenv'}:{RAW_URI}}}"
        if name == "server_name":
            return target(self.server_name) if environment == "ENV" else expression(self.server_name)
        if name in _REFERENCES:
            return f"%{{{_REFERENCES[name]}}}"
        if name in _TLS_REFERENCES:
            return f"%{{{'SSL:' if environment == 'ENV' else ''}{_TLS_REFERENCES[name]}}}"
        if name.startswith("http_"):
            return f"%{{{request}:{name[5:].replace('_', '-')}}}"
        raise NotExpressible(field, f"Apache has no equivalent of ${name} in this value; use another variable")
