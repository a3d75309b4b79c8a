"""Accounts that a PHP-FPM pool may run as. Excluded are root, system accounts, and accounts that can become root."""

from __future__ import annotations

import grp
import os
import pwd
from typing import List, Set

from agents.host.errors import Refusal

FIRST_UID, NOBODY = 1000, 65534  # accounts below the first belong to the system (adduser(8), login.defs(5))
MOST = 1000
# Members of these groups are root, or can become root or read its secrets.
_PRIVILEGED = frozenset(
    {
        "root",
        "sudo",
        "wheel",
        "admin",
        "adm",
        "docker",
        "lxd",
        "incus",
        "disk",
        "shadow",
        "kmem",
        "libvirt",
        "systemd-journal",
    }
)


def usable() -> List[str]:
    """Return the names of all accounts that a pool may run as, sorted."""
    members = _privileged_members()
    names = {entry.pw_name for entry in pwd.getpwall() if not _reason(entry, members)}
    return sorted(names)[:MOST]


def require_usable(name: str) -> None:
    """Raise Refusal unless a pool may run as the account `name`."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Refusal(
            "refused", "the host has no account %s. Create it: adduser --disabled-password %s" % (name, name)
        ) from None
    reason = _reason(entry, _privileged_members())
    if reason:
        raise Refusal("refused", "a PHP-FPM pool cannot run as %s: %s" % (name, reason))


def _privileged_members() -> Set[str]:
    groups = [entry for entry in grp.getgrall() if entry.gr_name in _PRIVILEGED or entry.gr_gid == 0]
    found = {name for entry in groups for name in entry.gr_mem}
    gids = {entry.gr_gid for entry in groups}
    return found | {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid in gids}


def _reason(entry: pwd.struct_passwd, privileged: Set[str]) -> str:
    """Return the reason why a pool must not run as the account `entry`, as part of a sentence; "" if a pool may."""
    if not FIRST_UID <= entry.pw_uid < NOBODY:
        return "the account belongs to the system; choose an account with a user ID from %d to %d" % (
            FIRST_UID,
            NOBODY - 1,
        )
    if entry.pw_name in privileged:
        return "the account belongs to a group with permissions of the system"
    if str(entry.pw_uid) in (os.environ.get("SUDO_UID", ""), str(os.geteuid())):
        return "Paddock signs in with this account"
    return ""
