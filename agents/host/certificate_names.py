"""Find the certificate files that configurations of web servers name, from the main file through every include.

Conditions such as `<IfModule>` are not evaluated. So a result is a name in a configuration; the server may not have
loaded the file.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Callable, Dict, Iterator, List, Tuple

from agents.host import processes

MOST_FILES = 2000
MAX_TOTAL = 32 * 1024 * 1024
MAX_DEPTH = 16

Named = Tuple[str, str]  # path of a certificate as named, and the configuration file that names it
Text = Callable[[str], str]  # content of a file; "" if it cannot be read

_NGINX_WORD = re.compile(
    r"#[^\n]*"
    r'|"(?P<double>(?:\\.|[^"\\\n])*)"'
    r"|'(?P<single>(?:\\.|[^'\\\n])*)'"
    r"|(?P<end>[;{}])"
    r"|(?P<plain>(?:\\.|[^\s;{}\"'#\\])(?:\\.|[^\s;{}\\])*)"
)
_NGINX_NAMES = frozenset(
    {"include", "ssl_certificate", "proxy_ssl_certificate", "grpc_ssl_certificate", "uwsgi_ssl_certificate"}
)
_APACHE_WORD = re.compile(r'"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|(\S+)')
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_EXPORT = re.compile(r"^export (APACHE_\w+)=(\S+)", re.MULTILINE)


class Files:
    """Reader of configuration files for one request. It reads each file once per web server. `is_complete` becomes
    False when a limit is reached (MOST_FILES or MAX_TOTAL).
    """

    def __init__(self, text: Text, go_on: Callable[[], None]) -> None:
        """Create a reader. `text` returns the content of a file. `go_on` is called before each file, and raises Refusal
        to end the reading.
        """
        self._text, self._go_on = text, go_on
        self._left, self._bytes = MOST_FILES, MAX_TOTAL
        self._seen: set[str] = set()
        self.is_complete = True

    def begin(self) -> None:
        """Start with another web server: every file may be read again, because several web servers may include the same
        files.
        """
        self._seen = set()

    def new_text(self, path: str) -> str:
        """Return the content of a configuration file; "" if it was already read since `begin`, or if a limit was
        reached.
        """
        if path in self._seen or not self._may_go_on():
            return ""
        self._seen.add(path)
        self._left -= 1
        text = self._text(path)
        self._bytes -= len(text)
        return text

    def find(self, pattern: str) -> Iterator[str]:
        """Yield the files that a glob pattern matches, sorted. If the pattern has no wildcard, yield it as a path,
        without a check whether the file exists.
        """
        if not any(sign in pattern for sign in "*?["):
            yield pattern
            return
        found: List[str] = []
        for path in glob.iglob(pattern):
            if len(found) >= MOST_FILES or not self._may_go_on():
                self.is_complete = False
                break
            found.append(path)
        yield from sorted(found)

    def _may_go_on(self) -> bool:
        self._go_on()
        if self._left <= 0 or self._bytes <= 0:
            self.is_complete = False
        return self.is_complete


def named(engine: str, main_config: str, prefix: str, files: Files) -> Iterator[Named]:
    files.begin()
    yield from READERS[engine](main_config, prefix, files)


# --- nginx, and gallop, which reads the same format ---


def _nginx(path: str, base: str, files: Files, depth: int) -> Iterator[Named]:
    """Yield (certificate file, configuration file) for an nginx configuration file and all files that it includes.
    Relative paths start at the folder `base`.
    """
    for directive, value in _nginx_directives(files.new_text(path)):
        if directive != "include":
            if value and not value.startswith("data:"):
                yield os.path.join(base, value), path
        elif depth < MAX_DEPTH:
            for inner in files.find(os.path.join(base, value)):
                yield from _nginx(inner, base, files, depth + 1)


def _nginx_directives(text: str) -> Iterator[Tuple[str, str]]:
    """Yield (name, value) of each directive in `text` that includes a file or names a certificate (_NGINX_NAMES)."""
    words: List[str] = []
    for match in _NGINX_WORD.finditer(text):
        group = match.lastgroup
        if group == "end":
            if len(words) == 2 and words[0] in _NGINX_NAMES:
                yield words[0], re.sub(r"\\(.)", r"\1", words[1])
            words = []
        elif group:
            words.append(match[group])


# --- Apache httpd ---


class _Apache:
    """Finder of certificate names in one Apache configuration.

    ServerRoot and the variables of `Define` apply to the lines after their definition, the variables of Debian's
    envvars to all lines.
    """

    def __init__(self, main_config: str, prefix: str, files: Files) -> None:
        self._main, self._root, self._files = main_config, prefix, files
        folder = os.path.dirname(main_config)
        envvars = processes.read(os.path.join(folder, "envvars")).decode("utf-8", "replace")
        self._variables: Dict[str, str] = {"APACHE_CONFDIR": folder}
        self._variables.update((name, value.replace("$SUFFIX", "")) for name, value in _EXPORT.findall(envvars))

    def named(self) -> Iterator[Named]:
        yield from self._file(self._main, 0)

    def _file(self, path: str, depth: int) -> Iterator[Named]:
        for line in self._files.new_text(path).replace("\\\n", " ").splitlines():
            words = [a or b or c for a, b, c in _APACHE_WORD.findall(line.strip())]
            if len(words) < 2 or words[0].startswith(("#", "<")):
                continue
            name = words[0].lower()
            value = _VARIABLE.sub(lambda match: self._variables.get(match[1], match[0]), words[1])
            if name == "define":
                self._variables[words[1]] = words[2] if len(words) > 2 else ""
            elif name == "serverroot":
                self._root = value
            elif name == "sslcertificatefile":
                yield os.path.join(self._root, value), path
            elif name in ("include", "includeoptional") and depth < MAX_DEPTH:
                for inner in self._included(os.path.join(self._root, value)):
                    yield from self._file(inner, depth + 1)

    def _included(self, pattern: str) -> Iterator[str]:
        for path in self._files.find(pattern):
            if os.path.isdir(path):
                yield from self._files.find(os.path.join(glob.escape(path), "*"))
            else:
                yield path


# --- OpenLiteSpeed ---


def _litespeed(main_config: str, prefix: str, files: Files) -> Iterator[Named]:
    yield from _litespeed_file(main_config, {"SERVER_ROOT": prefix}, files, 0)


def _litespeed_file(path: str, names: Dict[str, str], files: Files, depth: int) -> Iterator[Named]:
    """Yield (certificate file, configuration file) for one file of OpenLiteSpeed's configuration, and for its includes,
    virtual hosts and templates. `names` maps variables, such as SERVER_ROOT, to their values.
    """
    blocks: List[Tuple[str, str, Dict[str, str]]] = []  # kind, name and settings of the blocks around a line
    base = names["SERVER_ROOT"]
    for line in files.new_text(path).splitlines():
        words = line.split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        key, value = words[0].lower(), words[1].strip() if len(words) > 1 else ""
        if value.endswith("{") or key.endswith("{"):
            blocks.append((key.rstrip("{"), value.rstrip("{").strip(), {}))
        elif key == "}" and blocks:
            kind, name, settings = blocks.pop()
            if kind in ("virtualhost", "vhtemplate") and depth < MAX_DEPTH:
                yield from _litespeed_host(name, settings, names, files, depth)
        elif key == "certfile":
            yield os.path.join(base, _expanded(value, names)), path
        elif key == "include" and depth < MAX_DEPTH:
            for inner in files.find(os.path.join(base, _expanded(value, names))):
                yield from _litespeed_file(inner, names, files, depth + 1)
        elif blocks:
            blocks[-1][2][key] = value


def _litespeed_host(
    name: str, settings: Dict[str, str], names: Dict[str, str], files: Files, depth: int
) -> Iterator[Named]:
    base = names["SERVER_ROOT"]
    own = dict(names, VH_NAME=name)
    own["VH_ROOT"] = os.path.normpath(os.path.join(base, _expanded(settings.get("vhroot", ""), own)))
    value = settings.get("configfile", "")
    if settings.get("templatefile"):  # its virtual hosts have names of their own
        own, value = names, settings["templatefile"]
    if value:
        yield from _litespeed_file(os.path.join(base, _expanded(value, own)), own, files, depth + 1)


def _expanded(value: str, names: Dict[str, str]) -> str:
    """Return `value` without surrounding quotes, and with the value of each variable in `names` in place of `$NAME`;
    the case of the name does not matter.
    """
    for name, real in names.items():
        value = re.sub(re.escape("$" + name), lambda _match, real=real: real, value, flags=re.IGNORECASE)  # type: ignore[misc]
    return value.strip("\"'")


READERS: Dict[str, Callable[[str, str, Files], Iterator[Named]]] = {
    "nginx": lambda main_config, _prefix, files: _nginx(main_config, os.path.dirname(main_config), files, 0),
    "native": lambda main_config, _prefix, files: _nginx(main_config, os.path.dirname(main_config), files, 0),
    "apache": lambda main_config, prefix, files: _Apache(main_config, prefix, files).named(),
    "openlitespeed": _litespeed,
}
