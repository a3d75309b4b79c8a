"""Validate hosts, SSH authorities and web servers, including rules that concern several fields. The models' `clean()`
calls these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.remote.errors import InvalidKey
from panel.remote.keys import load_private_keys, parse_key_line

if TYPE_CHECKING:
    from panel.hosts.models import Host, SshAuthority, WebServer

MAX_SECRET = 20_000
MAX_BASTIONS = 3
DEFAULT_ROOTS = ("/srv/www",)  # folders for sites of a new host
NO_ADDRESS = gettext_lazy("Enter the host name or IP address of the SSH server.")
NO_USERNAME = gettext_lazy("Enter the SSH user name.")
NO_ROOTS = gettext_lazy("Enter at least one folder for sites, for example /srv/www.")


def host(host: Host) -> None:
    """Validate a host: it needs a site folder and, if it is reached over SSH, an address, a user, valid secrets and
    valid bastions. A password must be a single line. Raises ValidationError.
    """
    faults: dict[str, str] = {} if host.site_roots else {"site_roots": str(NO_ROOTS)}
    if host.connection == "ssh":
        _check_way_in(host, faults)
    if faults:
        raise ValidationError(faults)


def _bastion_fault(host: Host) -> str:
    """Return the first mistake in the chain of bastions of a host, as a message; "" if there is no mistake."""
    bastion, passed = host.bastion, {host.pk}
    while bastion is not None:
        if bastion.connection != "ssh":
            return _("The panel's own host cannot be a bastion. Choose another host, or leave the bastion empty.")
        if bastion.pk in passed:
            return _("Paddock reaches %s through this host. Choose another bastion.") % bastion.name
        if len(passed) > MAX_BASTIONS:
            return (
                _("A connection can pass at most %d bastions. Choose a bastion that is behind fewer bastions.")
                % MAX_BASTIONS
            )
        passed.add(bastion.pk)
        bastion = bastion.bastion
    return ""


def _check_way_in(host: Host, faults: dict[str, str]) -> None:
    if fault := _bastion_fault(host):
        faults["bastion"] = fault
    if not host.address:
        faults["address"] = str(NO_ADDRESS)
    if not host.username:
        faults["username"] = str(NO_USERNAME)
    for name in ("password", "sudo_password"):
        value = str(getattr(host, name))
        if any(character in value for character in "\r\n\0") or len(value) > MAX_SECRET:
            faults[name] = _("Enter the password as a single line without control characters.")
    if host.sudo_password and not host.use_sudo:
        faults["sudo_password"] = _(
            "The sudo password needs “Use sudo”. Turn on “Use sudo”, or leave the sudo password empty."
        )
    if host.authority is not None and host.authority.kind != "user":
        faults["authority"] = _("%s signs host keys. Choose an authority that signs Paddock's keys.") % host.authority
    if host.private_key:
        try:
            load_private_keys(host.private_key)
        except InvalidKey as error:
            faults["private_key"] = error.message


def authority(row: SshAuthority) -> None:
    """Validate the public key of an SSH authority: one line with a key of a known type. Remove options and comment from
    the line. Raises ValidationError.
    """
    words = row.public_key.split()
    line = " ".join(words[1:] if words[:1] == ["@cert-authority"] else words)
    try:
        parse_key_line(line)
        load_ssh_public_key(" ".join(line.split()[:2]).encode())
    except (InvalidKey, ValueError, UnsupportedAlgorithm):
        message = _("Enter the public key of the authority as a line such as “ssh-ed25519 AAAA...”.")
        raise ValidationError({"public_key": message}) from None
    row.public_key = " ".join(line.split()[:2])


def web_server(web_server: WebServer) -> None:
    """Raise ValidationError if a web server controlled by systemd has no unit, or if its layout does not suit
    its kind.
    """
    faults: dict[str, str] = {}
    if web_server.control == "systemd" and not web_server.unit:
        faults["unit"] = _("Enter the systemd unit of the web server, for example nginx.service.")
    if (web_server.layout == "vhosts") != (web_server.engine == "openlitespeed"):
        faults["layout"] = _(
            "OpenLiteSpeed uses the vhosts layout; the other web servers use conf.d or sites-available."
        )
    if faults:
        raise ValidationError(faults)
