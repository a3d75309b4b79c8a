"""Report the certificates in files of this host: in those that web server configurations name, and in usual folders.

Only the first certificate of a file is sent to the panel. Private keys in the same file or folder are not.
"""

from __future__ import annotations

import base64
import glob
import os
import re
import stat
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from agents.host import certificate_end, certificate_names, paths, safe
from agents.host.errors import Refusal
from agents.host.operations import Emit

MOST = 500  # certificates
MOST_NAMERS = 10  # configuration files that name the same certificate
MOST_SKIPPED = 50
MOST_ENGINES = 20
MAX_FILE = 64 * 1024  # a chain has 3 to 12 KiB; bundles of authorities have more
MAX_DER = 16 * 1024
MAX_CONFIG = 4 * 1024 * 1024
LONGEST_S = 20.0
# The system's own authorities (/etc/ssl/certs) are left out.
FOLDERS = (
    "/etc/letsencrypt/live/*/fullchain.pem",
    "/etc/ssl/private/*.pem",
    "/etc/ssl/private/*.crt",
    "/etc/ssl/*.pem",
    "/etc/ssl/*.crt",
    "/etc/nginx/ssl/*",
    "/etc/apache2/ssl/*",
    "/etc/httpd/ssl/*",
)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Find certificates on this host.

    {"engines": [{"engine", "main_config", "prefix"}]} -> {"certificates": [{"path", "der": base64, "named_in":
    [[engine, configuration file]]}], "skipped": [{"path", "why"}], "is_complete"}. A certificate that no configuration
    names has an empty "named_in". "is_complete" is false if there are too many certificates or configuration files, or
    if these are too large. Raises Refusal if the search takes longer than LONGEST_S, because certificates that were not
    read would look removed.
    """
    engines = args.get("engines")
    if not isinstance(engines, list) or len(engines) > MOST_ENGINES:
        raise Refusal("invalid", "engines is a list of at most %d web servers" % MOST_ENGINES)
    found = _Found(cancelled)
    for engine in engines:
        kind, main_config, prefix = (_text(engine, name) for name in ("engine", "main_config", "prefix"))
        paths.check_shape(main_config)
        found.read_configuration(kind, main_config, prefix)
    for path in found.names:
        found.add(path)
    for pattern in FOLDERS:
        for path in sorted(glob.glob(pattern)):
            found.add(path)
    return {
        "certificates": found.rows,
        "skipped": [{"path": path, "why": why} for path, why in found.skipped.items()][:MOST_SKIPPED],
        "is_complete": found.is_complete and found.files.is_complete,
    }


def _text(engine: Any, name: str) -> str:
    value = engine.get(name) if isinstance(engine, dict) else None
    if not isinstance(value, str):
        raise Refusal("invalid", "each web server has the texts engine, main_config and prefix")
    return value


class _Found:
    """Results of one request.

    `names` maps the path of a certificate file to the configuration files that name it. `rows` are the certificates of
    the result. `skipped` maps the path of a file that was not read to the reason.
    """

    def __init__(self, cancelled: threading.Event) -> None:
        self._until = time.monotonic() + LONGEST_S
        self._cancelled = cancelled
        self._leaves: set[str] = set()
        self.names: Dict[str, List[Tuple[str, str]]] = {}
        self.skipped: Dict[str, str] = {}
        self.rows: List[Dict[str, Any]] = []
        self.is_complete = True
        self.files = certificate_names.Files(self._configuration, self.go_on)

    def go_on(self) -> None:
        """Raise Refusal if the request was cancelled or took longer than LONGEST_S."""
        if self._cancelled.is_set():
            raise Refusal("cancelled", "the reading of the certificates was cancelled")
        if time.monotonic() > self._until:
            raise Refusal("failed", "reading the certificates took longer than %g s" % LONGEST_S)

    def read_configuration(self, engine: str, main_config: str, prefix: str) -> None:
        for name, config in certificate_names.named(engine, main_config, prefix, self.files):
            path = os.path.normpath(name)
            if "$" in path:
                self.skipped[path] = "The name contains a variable."
                continue
            namers = self.names.setdefault(path, [])
            if (engine, config) not in namers and len(namers) < MOST_NAMERS:
                namers.append((engine, config))

    def add(self, path: str) -> None:
        """Add the first certificate of a file to the rows. If the file has none or cannot be read, add the file to
        `skipped`, but only if a configuration names it.

        A file that no configuration names is left out if another row has the same certificate.
        """
        if any(row["path"] == path for row in self.rows):
            return
        self.go_on()
        if len(self.rows) >= MOST:
            self.is_complete = False
            return
        namers = self.names.get(path, [])
        try:
            der = _leaf(_content(path, MAX_FILE))
        except (OSError, Refusal) as error:
            der, why = None, error.message if isinstance(error, Refusal) else str(error.strerror)
        else:
            why = "The file contains no certificate in PEM format."
        if der is None:
            if namers:
                self.skipped[path] = why
            return
        if namers or der not in self._leaves:
            self._leaves.add(der)
            self.rows.append({"path": path, "der": der, "named_in": [list(namer) for namer in namers]})

    def _configuration(self, path: str) -> str:
        try:
            return _content(path, MAX_CONFIG).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except (OSError, Refusal) as error:
            self.skipped[path] = error.message if isinstance(error, Refusal) else str(error.strerror)
            return ""


def _content(path: str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raise Refusal or OSError otherwise.

    A symbolic link is followed only if every account that could have created the link may read the target.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device can have effects
        raise Refusal("refused", "This is not a regular file.", path=path)
    real = os.path.realpath(path)
    descriptor = paths.open_file(real)
    try:
        if real != path:
            safe.require_readable_by(safe.leaders(path), descriptor, path)
        data = safe.content(descriptor, most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise Refusal("refused", "The file is larger than %d KiB." % (most // 1024), path=path)
    return data


def _leaf(data: bytes) -> Optional[str]:
    """Return the first certificate of PEM data as base64 of its DER encoding; None if there is no valid certificate."""
    match = _PEM.search(data)
    if match is None:
        return None
    try:
        der = base64.b64decode(b"".join(match[1].split()), validate=True)
    except ValueError:
        return None
    if len(der) > MAX_DER or certificate_end.end_of(der) is None:
        return None
    return base64.b64encode(der).decode("ascii")
