"""Prints the one-time link that makes the first account."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from panel.accounts.services.setup import setup_link_create, setup_link_current


class Command(BaseCommand):
    help = "Print the one-time setup link. Only someone on this machine can run this or read the file it writes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--base-url", default="http://127.0.0.1:8000", help="the panel's address")
        parser.add_argument("--renew", action="store_true", help="make a new link; the earlier one stops working")
        parser.add_argument("--if-needed", action="store_true", help="print nothing once the panel is set up")

    def handle(self, *args: Any, base_url: str, renew: bool, if_needed: bool, **options: Any) -> None:
        make = setup_link_create if renew else setup_link_current
        link = make(base_url=base_url)
        if link:
            self.stdout.write(link)
        elif not if_needed:
            raise CommandError("The panel is set up already. An administrator makes further accounts under Settings.")
