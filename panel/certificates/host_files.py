"""Certificates that other programs renew in files on hosts: read regularly, so that pages and alerts are up to date."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from panel.certificates.selectors import certificates_on_hosts
from panel.core.errors import ApplicationError
from panel.hosts.authorities import with_authorities
from panel.hosts.models import Host
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.websites.models import Certificate
from panel.websites.services import certificate_observed

logger = logging.getLogger(__name__)

HOSTS_AT_ONCE = 8
READ_TIMEOUT_S = 30.0
RENEWED_BELOW = ("/etc/letsencrypt",)  # links of its folder `live` lead to `archive`


def look() -> int:
    """Read all certificate files that sites refer to; return the number of renewed certificates.
    Hosts that do not respond are skipped.
    """
    by_host = certificates_on_hosts()
    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        found = list(threads.map(with_authorities(_texts), by_host.items()))
    renewed = 0
    for texts, rows in zip(found, by_host.values(), strict=True):
        for row in rows:
            text = texts.get(row.certificate_path)
            renewed += _observed(row, text) if text else 0
    return renewed


def _texts(asked: tuple[Host, Sequence[Certificate]]) -> dict[str, str]:
    """Read certificate files of one host; return {path: content}, {} if the host does not respond.

    Runs in a thread: wrap this function in `with_authorities`, so that no thread has to open its own database
    connection.
    """
    host, rows = asked
    try:
        with pool.session(target_for(host)) as agent:
            paths = sorted({row.certificate_path for row in rows})
            roots = sorted({*RENEWED_BELOW, *map(posixpath.dirname, paths)})
            found = agent.call("read", {"patterns": paths, "roots": roots}, timeout=READ_TIMEOUT_S)["files"]
    except ApplicationError as error:
        logger.info("certificates on %s were not read: %s", host, error.message)
        return {}
    return {str(item["path"]): str(item["text"]) for item in found}


def _observed(row: Certificate, text: str) -> bool:
    try:
        return certificate_observed(row, text)
    except ApplicationError as error:
        logger.warning("%s on %s: %s", row.certificate_path, row.host, error.message)
        return False
