"""Shell script that adds a host to the panel, and the commands that start it. No I/O.

The script is POSIX sh. A shell that receives only a part of the script does nothing, because all commands are in
functions, and only the last line calls `main`.
"""

from __future__ import annotations

import shlex

_SCRIPT = """\
#!/bin/sh
# Adds this host to the Paddock panel at {url}.
# It creates the account {account} with the panel's SSH key{sudo_comment}. Nothing else is changed.
set -eu

fail() {{
    echo "paddock: $1" >&2
    exit 1
}}

main() {{
    umask 077
    url={url} token={token} account={account}
    [ "$(id -u)" = 0 ] || fail "Run this as root, for example: curl ... | sudo sh"
    for needed in curl su{sudo_needed}; do
        command -v "$needed" > /dev/null || fail "$needed is missing. Install it, then run this again."
    done
    sshd=$(command -v sshd || echo /usr/sbin/sshd)
    [ -x "$sshd" ] || fail "sshd is missing. Install an OpenSSH server, then run this again."
    settings=$("$sshd" -T) || fail "sshd rejects its configuration; see the message above."
    port=$(echo "$settings" | awk '$1 == "port" {{ print $2; exit }}')
    host_key=
    for kind in ed25519 ecdsa rsa; do
        [ -n "$host_key" ] || host_key=$(key_of "$settings" "$kind")
    done
    [ -n "$host_key" ] || fail "sshd has no Ed25519, ECDSA or RSA host key. Create one with ssh-keygen -A."
    id "$account" > /dev/null 2>&1 || create_account "$account"
    response=$(ask "$url/enroll/" --data-urlencode "name=$(uname -n)" --data-urlencode "port=$port" \\
        --data-urlencode "host_key=$host_key") || fail "The panel did not accept this host."
    name=$(echo "$response" | sed -n 's/^name //p')
    key=$(echo "$response" | sed -n 's/^key //p')
    [ -n "$name" ] && [ -n "$key" ] || fail "The panel's response is not valid. Run this again."
    # The account itself writes the file, so that root writes nothing to a folder of another account.
    echo "$key" | su -s /bin/sh "$account" -c \\
        'umask 077; mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys && read -r key &&
        {{ grep -qxF "$key" ~/.ssh/authorized_keys || echo "$key" >> ~/.ssh/authorized_keys; }}' ||
        fail "The key could not be added to ~/.ssh/authorized_keys of $account."
{sudo_rule}\
    ask "$url/enroll/ready/" --data-urlencode "name=$name" > /dev/null || true
    echo "This host is in the panel as $name: $url/hosts/$name/"
}}

key_of() {{
    echo "$1" | awk '$1 == "hostkey" {{ print $2 }}' | while read -r path; do
        case $path in *_"$2"_key) [ ! -r "$path.pub" ] || cut -d' ' -f1,2 "$path.pub" ;; esac
    done
}}

create_account() {{
    command -v useradd > /dev/null || fail "useradd is missing. Create the account $1, then run this again."
    # No password matches the hash "*"; sshd without PAM treats the usual "!" as a locked account.
    useradd --system --create-home --home-dir "/var/lib/$1" --shell /bin/sh --password '*' "$1" ||
        fail "useradd failed; see the message above."
}}

ask() {{
    address=$1
    shift
    # The token comes from standard input, so that no other account sees it in the list of processes.
    received=$(echo "header = \\"Authorization: Bearer $token\\"" |
        curl -sS --max-time 60 -K - -w '\\n%{{http_code}}' "$@" "$address") || return 1
    case $received in
        *"
200") echo "$received" | sed '$d' ;;
        *) echo "$received" | sed '$d' >&2; return 1 ;;
    esac
}}

main
"""
_SUDO_RULE = """\
    rule=/etc/sudoers.d/paddock-enrollment
    echo "$account ALL=(root) NOPASSWD: ALL" > "$rule.new" && chmod 440 "$rule.new"
    visudo -cqf "$rule.new" || {{ rm -f "$rule.new"; fail "visudo rejects the rule for $account."; }}
    mv "$rule.new" "$rule"
"""


def script(url: str, token: str, account: str) -> str:
    """Return the shell script for hosts of one enrollment. `url` is the panel's URL without a slash at its end."""
    is_root = account == "root"
    return _SCRIPT.format(
        url=shlex.quote(url),
        token=shlex.quote(token),
        account=shlex.quote(account),
        sudo_comment="" if is_root else ", and allows it to use sudo without a password",
        sudo_needed="" if is_root else " sudo visudo",
        sudo_rule="" if is_root else _SUDO_RULE.format(),
    )


def command(url: str, token: str) -> str:
    """Return the command line that an administrator runs on a host to enroll it."""
    return f"curl -fsS -H 'Authorization: Bearer {token}' {shlex.quote(f'{url}/enroll/')} | sudo sh"


def cloud_init(url: str, token: str) -> str:
    """Return user data for cloud-init that runs the enrollment script at the first boot of a new host."""
    line = f"curl -fsS --retry 5 -H 'Authorization: Bearer {token}' {shlex.quote(f'{url}/enroll/')} | sh"
    return f"#cloud-config\npackages: [curl, sudo]\nruncmd:\n  - [sh, -c, {_yaml(line)}]\n"


def _yaml(text: str) -> str:
    """Quote a text as a YAML string in double quotes; the text must not have control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
