"""Shell lines that an administrator pastes on a host to let Paddock sign in. The functions only build text.

The lines are POSIX sh. A line that is pasted again changes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_FINGERPRINTS = 'for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf "$key"; done'
# No password fits "*"; sshd without PAM would take the usual "!" for a locked account.
_ACCOUNT = (
    "id {account} > /dev/null 2>&1 || "
    "useradd --system --create-home --home-dir {home} --shell /bin/sh --password '*' {account}"
)
_ADD_KEYS = (
    "mkdir -p ~/.ssh; while read -r key; do "
    'grep -qxF "$key" ~/.ssh/authorized_keys 2> /dev/null || printf "\\n%s\\n" "$key" >> ~/.ssh/authorized_keys; done'
)
_SUDO_RULE = (
    "rule=/etc/sudoers.d/paddock; echo {rule} > $rule.new; chmod 440 $rule.new; "
    "visudo -cqf $rule.new || {{ rm -f $rule.new; exit 1; }}; mv $rule.new $rule"
)


def prepare_line(account: str, keys: Sequence[str], *, with_sudo: bool) -> str:
    """Return a shell line for root that prepares a host for Paddock.

    The line creates the account if it is missing, adds the lines `keys` to the account's authorized_keys, allows sudo
    without a password if `with_sudo` is set, and prints the fingerprints of the host's SSH keys.
    """
    quoted = " ".join(shlex.quote(key) for key in keys)
    if account == "root":
        steps = [f"printf '%s\\n' {quoted} | sh -c {shlex.quote(_ADD_KEYS)}"]
    else:
        user = shlex.quote(account)
        # Run as the account, so that root writes nothing to the account's folder.
        add = f"printf '%s\\n' {quoted} | su -s /bin/sh {user} -c {shlex.quote(f'umask 077; {_ADD_KEYS}')}"
        steps = [_ACCOUNT.format(account=user, home=shlex.quote(f"/var/lib/{account}")), add]
        if with_sudo:
            steps.append(_SUDO_RULE.format(rule=shlex.quote(sudo_rule(account))))
    return f"(set -e; umask 077; {'; '.join([*steps, _FINGERPRINTS])})"


def sudo_rule(account: str) -> str:
    return f"{account} ALL=(root) NOPASSWD: ALL"


def forwarding_line(keys: Sequence[str]) -> str:
    """Return a shell line for the account on a bastion: the line changes authorized_keys to allow port forwarding with
    each key in `keys`. "" if `keys` has no key.
    """
    found = [word for line in keys for word in line.split() if re.fullmatch(r"AAAA[A-Za-z0-9+/=]+", word)]
    edits = " ".join(f"-e '\\|{key}| s/restrict /restrict,port-forwarding /'" for key in found)
    return f"sed -i {edits} ~/.ssh/authorized_keys" if edits else ""


def fingerprints_in(text: str) -> list[str]:
    """Return the fingerprints (SHA256:...) in a text, such as the output of `ssh-keygen -l`."""
    return re.findall(r"SHA256:[A-Za-z0-9+/]{43}", text)
