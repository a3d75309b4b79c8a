"""`manage.py clear_sign_in_limits [NAME]`: clear the counts of wrong passwords and codes, which delay sign-in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from panel.accounts.guessing import guesses_forget
from panel.accounts.models import GuessBudget, User


class Command(BaseCommand):
    help = "Clear the counts of wrong passwords and codes of one account. Without a name, clear all counts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", default="")

    def handle(self, *args: Any, username: str = "", **options: Any) -> None:
        if not username:
            GuessBudget.objects.all().delete()
            return
        try:
            guesses_forget(User.objects.get_by_natural_key(username))
        except User.DoesNotExist as error:
            raise CommandError(f"The account {username} does not exist.") from error
