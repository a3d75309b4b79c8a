"""`manage.py register_demo_hosts DIR`: register the two demo hosts of docker-compose.yml. Safe to repeat.

scripts/compose-secrets.sh creates DIR: `demo_key`, accepted by both hosts, and `demo_host_key.pub`, their host key.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from panel.core.errors import ApplicationError
from panel.hosts.models import Host
from panel.hosts.services import register_ssh_host

NAMES = ("demo-nginx", "demo-apache")


class Command(BaseCommand):
    help = "Register the demo hosts of docker-compose.yml with their pinned keys and check them."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="folder with demo_key and demo_host_key.pub")
        parser.add_argument(
            "--host",
            action="append",
            metavar="NAME[=ADDRESS[:PORT]]",
            help=f"a host to register; repeat for more hosts (default: {' and '.join(NAMES)}, port 22)",
        )
        parser.add_argument("--username", default="root")
        parser.add_argument("--site-root", default="/var/www", help="folder for document roots and logs")

    def handle(self, *args: object, **options: object) -> None:
        folder = Path(str(options["folder"]))
        shared = {
            "host_key": read(folder / "demo_host_key.pub"),
            "private_key": read(folder / "demo_key"),
            "username": str(options["username"]),
            "site_roots": [str(options["site_root"])],
        }
        given = options["host"]
        for text in given if isinstance(given, list) else NAMES:
            self.register(text, shared)

    def register(self, text: str, shared: Mapping[str, object]) -> None:
        name, address, port = parsed(text)
        known = Host.objects.filter(name=name).exists()
        try:
            host = register_ssh_host(name=name, address=address, port=port, **shared)  # type: ignore[arg-type]
        except ValidationError as error:
            raise CommandError(f"{name} was not registered: {' '.join(error.messages)}") from None
        except ApplicationError as error:
            raise CommandError(f"{name} was not registered: {error.message}") from None
        self.stdout.write(f"==> {host.name} is already registered" if known else f"==> {host.name} registered")


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}. Run scripts/compose-secrets.sh to create it.") from None


def parsed(text: str) -> tuple[str, str, int]:
    """Parse NAME[=ADDRESS[:PORT]] into (name, address, port); the address defaults to the name, the port to 22."""
    name, _, rest = text.partition("=")
    address, _, port = rest.partition(":")
    if port and not port.isdecimal():
        raise CommandError(
            f"--host {text}: {port} is not a port. Use NAME=ADDRESS:PORT, for example web-1=127.0.0.1:2201."
        )
    return name, address or name, int(port or 22)
