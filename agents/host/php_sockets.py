"""Find the sockets of running PHP-FPM pools in the folders that distributions use."""

from __future__ import annotations

import glob
import os
import stat
from typing import List

MOST = 50
# Debian and Ubuntu; Fedora and its relatives; the packages of remi.
_PLACES = ("/run/php/*.sock", "/run/php-fpm/*.sock", "/var/opt/remi/php*/run/php-fpm/*.sock")


def found() -> List[str]:
    """Return the paths of the sockets, sorted; symbolic links, such as Debian's `php-fpm.sock`, are left out."""
    paths = sorted(path for place in _PLACES for path in glob.glob(place))
    return [path for path in paths if _is_socket(path)][:MOST]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
