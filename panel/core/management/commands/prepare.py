"""`manage.py prepare`: set up the data folder so that the panel can start. Safe to repeat.

`make run`, the tests and the container image all use this command.
"""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from panel.core.draining import drain_end
from panel.core.fields import encrypted_fields
from panel.core.management.commands.run import static_fingerprint


class Command(BaseCommand):
    help = (
        "Migrate the database, collect static files, register this host, and create the setup link for the "
        "first account."
    )

    def handle(self, *args: object, **options: object) -> None:
        self.say(f"data folder {settings.HOME}")
        self.say("database")
        self.reach_database()
        call_command("migrate", interactive=False, verbosity=0)
        self.check_keys()
        self.collect_static()
        if settings.LOCAL_HOST:
            self.say("this host as the first host")
        call_command("register_local_host")
        if drain_end():
            self.say("this host was drained, and begins jobs again")
        call_command("make_setup_link", verbosity=0)  # `run` prints the complete URL

    def say(self, text: str) -> None:
        self.stdout.write(f"==> {text}")
        self.stdout.flush()

    def reach_database(self) -> None:
        """Raise CommandError with the driver's message if the database is unavailable.
        The message of the connection pool would only mention its timeout.
        """
        own = connection.copy()
        own.settings_dict.get("OPTIONS", {}).pop("pool", None)
        try:
            own.ensure_connection()
            own.close()
        except DatabaseError as error:
            name = connection.settings_dict["NAME"]
            raise CommandError(
                f"The database {name} cannot be used: {str(error).strip()}. Start the database or "
                "correct PADDOCK_DATABASE_URL."
            ) from error

    def check_keys(self) -> None:
        """Raise CommandError if the encryption keys do not decrypt the stored secrets, because pages of hosts would
        fail later.

        The keys are wrong, for example, after a restore without the folder `secrets`.
        """
        for model, names in encrypted_fields():
            for name in names:
                row = model._default_manager.exclude(**{name: ""}).only("pk", name).order_by("-pk").first()
                try:
                    getattr(row, name, None)
                except ImproperlyConfigured as error:
                    raise CommandError(
                        f"The encryption keys cannot decrypt the secrets in this database, for "
                        f"example {model._meta.verbose_name} "
                        f"{row.pk if row else ''}. Restore the folder secrets from the backup of this "
                        f"database into {settings.HOME}, or set PADDOCK_ENCRYPTION_KEYS to the keys of the panel that "
                        "wrote the database."
                    ) from error

    def collect_static(self) -> None:
        stamp = settings.STATIC_ROOT / ".fingerprint"
        fingerprint = static_fingerprint()
        if stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
            return
        self.say("static files of the pages")
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(fingerprint, encoding="ascii")
