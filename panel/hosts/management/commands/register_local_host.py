"""`manage.py register_local_host`: register the panel's machine as a host, check it, and install gallop. Safe to
repeat.

With PADDOCK_LOCAL_HOST=0 the command does nothing: the panel's machine is not managed.
"""

from __future__ import annotations

import os

from django.conf import settings
from django.core.management.base import BaseCommand

from panel.core.errors import ApplicationError
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob, HostJobKind
from panel.hosts.native import install_private_nginx
from panel.hosts.services import register_local_host
from panel.hosts.targets import target_for
from panel.remote import pool


class Command(BaseCommand):
    help = "Register this host, find its web servers, and install the bundled gallop."

    def handle(self, *args: object, **options: object) -> None:
        if not settings.LOCAL_HOST:
            return
        host = register_local_host()
        if host.facts_at is None:
            self._queue_job(host, HostJobKind.CHECK)
        if settings.GALLOP_BINARY.is_file():  # also starts it after a reboot of the machine
            self._queue_job(host, HostJobKind.INSTALL_NATIVE)
        if os.geteuid() != 0:
            self._private_nginx(host)

    def _private_nginx(self, host: Host) -> None:
        try:
            with pool.session(target_for(host)) as agent:
                install_private_nginx(host, agent)
        except ApplicationError as error:
            self.stderr.write(error.message)

    def _queue_job(self, host: Host, kind: HostJobKind) -> None:
        """Run a job at once in this process, because no worker runs yet. A failure is printed and not raised, so that
        the panel starts anyway.
        """
        job = HostJob.objects.create(host=host, kind=kind)
        try:
            host_job_execute(job.uuid)
        except ApplicationError as error:
            self.stderr.write(error.message)
        job.refresh_from_db()
        if job.error:
            self.stderr.write(f"{job}: {job.error}")
