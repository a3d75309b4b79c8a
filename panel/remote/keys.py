"""Parse and create SSH private keys; parse, compare and format public keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
import re

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from panel.remote.errors import InvalidKey

# Signature algorithms accepted for each type of pinned key, without SHA-1.
SIGNATURES = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}

ALL_SIGNATURES = tuple(name for names in SIGNATURES.values() for name in names)

MOST_KEYS = 5  # sshd allows six attempts (MaxAuthTries)


def load_private_key(text: str) -> paramiko.PKey:
    """Parse an OpenSSH or PEM private key without a passphrase. Raises InvalidKey with an explanation."""
    kinds = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
    for kind in kinds:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"))
        except paramiko.PasswordRequiredException:
            raise InvalidKey(
                "The private key has a passphrase. Copy the key file, remove the passphrase from the "
                "copy (ssh-keygen -p -N '' -f COPY), and enter the copy."
            ) from None
        except (paramiko.SSHException, ValueError, IndexError, UnicodeDecodeError):
            continue
    raise InvalidKey(
        "This private key cannot be read. Paste the complete file, from -----BEGIN to END-----, of an "
        "Ed25519, ECDSA, or RSA key."
    )


def load_private_keys(text: str) -> list[paramiko.PKey]:
    """Parse all private keys in a text with `load_private_key`. Raises InvalidKey if a key is invalid, or if there are
    too many.
    """
    parts = re.findall(r"-----BEGIN [^-]*PRIVATE KEY-----.*?-----END [^-]*PRIVATE KEY-----", text, re.DOTALL)
    if len(parts) > MOST_KEYS:
        raise InvalidKey(
            f"Enter at most {MOST_KEYS} private keys, because sshd closes the connection after more attempts."
        )
    return [load_private_key(part) for part in parts or [text]]


def new_private_key() -> str:
    """Create an Ed25519 private key; return it in OpenSSH format, without a passphrase."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def key_line(key: paramiko.PKey) -> str:
    """Return the public key in the format of authorized_keys and known_hosts, without host and comment."""
    return f"{key.get_name()} {key.get_base64()}"


def parse_key_line(line: str) -> tuple[str, bytes]:
    """Parse a public key line such as "ssh-ed25519 AAAA..." into (type, blob). Raises InvalidKey for an unsupported
    type and for bad Base64.
    """
    words = line.split()
    if len(words) < 2 or words[0] not in SIGNATURES:
        raise InvalidKey(
            f"Enter the host key as a line such as 'ssh-ed25519 AAAA...', of one of the types {', '.join(SIGNATURES)}.",
            field="host_key",
        )
    try:
        blob = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        raise InvalidKey(
            "The second part of the host key is not complete base64. Copy the whole line of the key.", field="host_key"
        ) from None
    return words[0], blob


def same_key(line: str, key: paramiko.PKey) -> bool:
    return hmac.compare_digest(parse_key_line(line)[1], key.asbytes())


def fingerprint(line: str) -> str:
    """Return the fingerprint of a public key line as `ssh-keygen -l` prints it: SHA256:..."""
    digest = hashlib.sha256(parse_key_line(line)[1]).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def public_lines(private_key: str, *, forwards: bool = False) -> str:
    """Return lines for authorized_keys, one for each private key in a text. Their options forbid a terminal, which
    Paddock does not need, and port forwarding unless `forwards` is set, for a bastion.
    """
    keys = load_private_keys(private_key)
    return "\n".join(f"{_options(forwards)} {key_line(key)} paddock" for key in keys)


def authority_line(key: str, *, forwards: bool = False) -> str:
    """Return the line for authorized_keys that accepts all keys which an authority signed for the account.

    `key` is the line of the authority's public key. `forwards` allows port forwarding, for a bastion.
    """
    return f"cert-authority,{_options(forwards)} {key} paddock"


def _options(forwards: bool) -> str:
    return "restrict,port-forwarding" if forwards else "restrict"
