"""`manage.py prepare`: everything between an empty data folder and a panel that can start. Safe to run again.

`make run`, the tests and the container image all take this same path.
"""

from __future__ import annotations

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from panel.core.management.commands.run import static_fingerprint


class Command(BaseCommand):
    help = "Migrate the database, collect static files, register this machine, make the first-account link."

    def handle(self, *args: object, **options: object) -> None:
        self.say(f"data folder {settings.HOME}")
        self.say("database")
        self.reach_database()
        call_command("migrate", interactive=False, verbosity=0)
        self.collect_static()
        if settings.LOCAL_HOST:
            self.say("this machine as the first host")
        call_command("register_local_host")
        call_command("make_setup_link", verbosity=0)  # `run` prints the whole address

    def say(self, text: str) -> None:
        self.stdout.write(f"==> {text}")
        self.stdout.flush()

    def reach_database(self) -> None:
        """A line in place of a traceback when the database is not there. The driver's own words, not the pool's, which
        only knows how long it waited."""
        own = connection.copy()
        own.settings_dict.get("OPTIONS", {}).pop("pool", None)
        try:
            own.ensure_connection()
            own.close()
        except DatabaseError as error:
            name = connection.settings_dict["NAME"]
            raise CommandError(
                f"The database {name} cannot be used: {str(error).strip()}. Start it, or mend PADDOCK_DATABASE_URL."
            ) from error

    def collect_static(self) -> None:
        stamp = settings.STATIC_ROOT / ".fingerprint"
        fingerprint = static_fingerprint()
        if stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
            return
        self.say("pages' static files")
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(fingerprint, encoding="ascii")
