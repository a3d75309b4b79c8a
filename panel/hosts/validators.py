"""Validators of hosts and web servers: names, addresses, paths, units, ports.

The values never become part of a shell command. An impossible value is rejected here, so that the form shows the error
at the field; otherwise a network error would appear later.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)\Z")
USERNAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?\Z")
UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._:-]*\Z")
PATHS = ("binary", "prefix", "main_config", "config_root", "log_dir", "pid_file")
# Folders of the system, which a site must not publish or overwrite.
_OF_THE_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
)
NO_SITE_ROOTS = frozenset({"/", *(f"/{name}" for name in _OF_THE_SYSTEM)})


def validate_name(value: str) -> None:
    if not NAME.match(value):
        raise ValidationError(
            _("Enter lowercase letters a-z and digits, with hyphens between them, for example web-1."), code="host_name"
        )


def validate_address(value: str) -> None:
    """Validate the form of an IP address without brackets, or of a DNS name. A leading dash is rejected, because ssh
    tools would read it as an option.
    """
    try:
        ipaddress.ip_address(value)
    except ValueError:
        pass
    else:
        return
    labels = value.rstrip(".").split(".")
    if len(value) > 253 or not all(LABEL.match(label) for label in labels) or labels[-1].isdecimal():
        raise ValidationError(
            _(
                "Enter a host name such as web1.example.net or an IP address such as 192.0.2.10 or "
                "2001:db8::10, without port, brackets, or scheme."
            ),
            code="address",
        )


def validate_username(value: str) -> None:
    if not USERNAME.match(value):
        raise ValidationError(
            _(
                "Enter a login name of letters, digits, '.', '_', and '-' that starts with a letter, for "
                "example deploy."
            ),
            code="username",
        )


def validate_unit(value: str) -> None:
    if not UNIT.match(value):
        raise ValidationError(_("Enter the name of a systemd unit, for example nginx.service."), code="unit")


def validate_path(value: str) -> None:
    """Validate that a path is absolute and normalized."""
    if not value.startswith("/") or any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValidationError(
            _("“%(path)s” is not an absolute path. Enter a path such as /srv/www."), params={"path": value}, code="path"
        )
    if posixpath.normpath(value) != value or value.startswith("//"):
        raise ValidationError(
            _("Enter %(path)s without “..”, “.”, “//”, or a final “/”."),
            params={"path": value},
            code="path",
        )


def validate_site_roots(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError(_('Enter a list of folders, for example ["/srv/www"].'), code="site_roots")
    for item in value:
        validate_path(item)
        if item in NO_SITE_ROOTS:
            raise ValidationError(
                _(
                    "%(path)s is a folder of the system. Use a folder that only contains sites, for example /srv/www "
                    "or /var/www."
                ),
                params={"path": item},
                code="site_roots",
            )


def validate_web_server_paths(value: Any) -> None:
    """Validate `paths` of a WebServer: an absolute path for each name in PATHS, and no other names."""
    if not isinstance(value, dict) or set(value) != set(PATHS):
        raise ValidationError(
            _("Enter an object with the fields %(names)s."), params={"names": ", ".join(PATHS)}, code="paths"
        )
    for name, path in value.items():
        if not isinstance(path, str):
            raise ValidationError(_("The field %(name)s must be a path."), params={"name": name}, code="paths")
        validate_path(path)
    if value["config_root"] in NO_SITE_ROOTS:
        raise ValidationError(
            _("config_root is a folder of the system. Enter the web server's own folder, for example /etc/nginx."),
            code="paths",
        )


def validate_listeners(value: Any) -> None:
    members = {"name": str, "address": str, "port": int, "secure": bool, "text": str}
    if not isinstance(value, list) or not all(
        isinstance(item, dict)
        and {name: type(held) for name, held in item.items()} == members
        and item["name"]
        and not set("\n{}") & set(item["name"])
        for item in value
    ):
        raise ValidationError(
            _(
                "The stored listeners of the web server are not valid. Import the web server's configuration again "
                "(Import existing sites)."
            ),
            code="listeners",
        )


def validate_ports(value: Any) -> None:
    if not isinstance(value, list) or not all(type(item) is int and 0 < item < 65536 for item in value):
        raise ValidationError(_("Enter a list of ports, for example [80, 443]."), code="ports")
