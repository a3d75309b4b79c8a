"""`manage.py make_setup_link`: create the one-time link for the first account; write it to a file and print it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from panel.accounts.services.setup import setup_link_ensure


class Command(BaseCommand):
    help = (
        "Print the path of the one-time setup page. Append the path to the panel's address. Only users with "
        "access to this host can run the command or read the file that the command writes. The "
        "command prints nothing if an account exists."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--renew", action="store_true", help="create a new setup link; earlier setup links stop working"
        )

    def handle(self, *args: Any, renew: bool = False, **options: Any) -> None:
        path = setup_link_ensure(renew=renew)
        if path and options["verbosity"] > 0:
            self.stdout.write(path)
