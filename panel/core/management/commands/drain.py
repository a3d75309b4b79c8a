"""`manage.py drain`: let the workers of this machine finish their jobs before a stop or an upgrade."""

from __future__ import annotations

import argparse
import time

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from panel.core.draining import drain_begin, drain_end
from panel.core.jobs import Job, JobStatus
from panel.core.owners import is_here

LOOK_EVERY_S = 1.0


def _jobs_here() -> list[Job]:
    """Return the running jobs of all kinds whose worker is on this machine."""
    models = [model for model in apps.get_models() if issubclass(model, Job)]
    running = [row for model in models for row in model._default_manager.filter(status=JobStatus.RUNNING)]
    return [row for row in running if is_here(row.claimed_by)]


class Command(BaseCommand):
    help = (
        "Stop the workers of this host from beginning jobs, and wait until their running jobs "
        "have ended. Workers of other hosts take the queued jobs. `prepare`, which runs at the "
        "next start, ends the draining."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--timeout", type=float, default=120, metavar="MINUTES", help="minutes to wait at most (default: 120)"
        )
        parser.add_argument("--end", action="store_true", help="let the workers begin jobs again")

    def handle(self, *args: object, **options: object) -> None:
        if options["end"]:
            was = drain_end()
            self.say("the workers begin jobs again" if was else "the workers were not draining")
            return
        drain_begin()
        self.wait(float(str(options["timeout"])))
        self.say("drained: no job runs on this host. Stop the panel on this host, or run `drain --end`")

    def wait(self, minutes: float) -> None:
        """Wait until no job runs on this machine; print the running jobs whenever they change. Raises CommandError if
        jobs still run after `minutes`.
        """
        until, before = time.monotonic() + minutes * 60, ""
        while jobs := _jobs_here():
            names = ", ".join(_name(job) for job in jobs)
            if time.monotonic() > until:
                raise CommandError(
                    f"These jobs still run after {minutes:g} minutes: {names}. No other job begins on this "
                    f"host. Run drain again to continue to wait, cancel the jobs on their pages, or run `drain "
                    f"--end`."
                )
            if names != before:
                self.say(f"waiting for {names}")
            before = names
            time.sleep(LOOK_EVERY_S)

    def say(self, text: str) -> None:
        self.stdout.write(f"==> {text}")
        self.stdout.flush()


def _name(job: Job) -> str:
    return f"{job._meta.verbose_name} {job.uuid}"
