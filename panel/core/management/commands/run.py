"""`manage.py run`: run all processes of the panel on one machine in the foreground."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib
import os
import socket
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from panel.accounts.services import setup_link_path
from panel.celery import app as celery_app
from panel.core.serving import serve
from panel.core.supervisor import Program, Supervisor, run_to_end

READY_WITHIN_S = 60


class Command(BaseCommand):
    help = "Prepare the data folder, then run the web process, the worker, and the scheduler until Ctrl-C."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=port_number, default=8000)
        parser.add_argument("--address", default="127.0.0.1", help="address to listen on (default: this host only)")

    def handle(self, *args: object, **options: object) -> None:
        port, address = int(str(options["port"])), str(options["address"])
        lock = only_panel_of(settings.HOME)
        refuse_taken_port(address, port)
        if run_to_end(lambda: call_command("prepare")) != 0:
            raise CommandError("The panel cannot start. The output above shows the reason.")
        import_what_all_need()
        supervisor = Supervisor(programs(address, port), say=lambda text: self.say(text))
        try:
            supervisor.start()
            if wait_until_ready(supervisor, f"http://{address}:{port}/healthz"):
                self.welcome(f"http://localhost:{port}" if address == "127.0.0.1" else f"http://{address}:{port}")
            supervisor.watch()
        finally:
            self.say("stopping")
            supervisor.stop()
            run_to_end(lambda: call_command("stop_idle_servers"))
            lock.close()
        self.say("stopped")

    def say(self, text: str) -> None:
        self.stdout.write(f"==> {text}")
        self.stdout.flush()

    def welcome(self, url: str) -> None:
        self.say("ready")
        self.stdout.write(f"\n    Paddock        {url}/")
        link = setup_link_path()
        if link.exists():
            self.stdout.write(f"    First account  {url}{link.read_text(encoding='ascii').strip()}")
            self.stdout.write("                   (works once; Ctrl-C stops the panel)")
        self.stdout.write("")
        self.stdout.flush()


def port_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port. Use a number from 1 to 65535: make run PORT=8001")
    return int(text)


def only_panel_of(home: Path) -> IO[str]:
    """Lock the data folder for this panel; the lock ends when the returned file is closed.

    Two panels, and so two schedulers, on one database would run everything twice. Child processes hold the lock
    too. When all of them have ended, even by a kill, the kernel releases the lock (flock). Raises CommandError if
    another panel holds the lock.
    """
    file = (home / "run.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        raise CommandError(
            f"Another panel already uses {home} (process {file.read().strip() or 'unknown'}). Stop that "
            "panel with Ctrl-C, or choose another data folder: make run PADDOCK_HOME=/srv/paddock"
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def refuse_taken_port(address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} on {address} cannot be used: {error.strerror}. Choose another port: make run PORT=8001"
            ) from error


def import_what_all_need() -> None:
    """Import common modules before forking: children share their memory, and no signal interrupts an import.
    panel.asgi is not imported, because it sets limits for web processes only.
    """
    for module in ("panel.api.bodies", "panel.core.middleware", "panel.urls", "panel.celery", "uvicorn"):
        importlib.import_module(module)
    for module in ("celery.apps.worker", "celery.apps.beat", "celery.app.amqp"):
        importlib.import_module(module)
    connections.close_all()


def programs(address: str, port: int) -> list[Program]:
    def celery(*arguments: str) -> Callable[[], object]:
        # On a single machine the panel may run as root, so hide the worker's warning.
        warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
        return lambda: celery_app.start(["--quiet", *arguments, "--loglevel", "WARNING"])

    return [
        Program("web", lambda: serve(address, port)),
        Program("worker", celery("worker", "--without-gossip", "--without-mingle")),
        Program("scheduler", celery("beat", "--pidfile", "")),
    ]


def wait_until_ready(supervisor: Supervisor, url: str) -> bool:
    """Wait until the web process responds to `url`, and return True; False after READY_WITHIN_S seconds or a stop
    signal.

    Raises CommandError if the web process exits.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and not supervisor.stopping:
        code = supervisor.programs[0].ended()
        if code is not None:
            raise CommandError(f"The web process exited with code {code}; the output of the process is above.")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own loopback address
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    return False


def static_fingerprint() -> str:
    """Return a hash that changes whenever the input of collectstatic may have changed."""
    digest = hashlib.sha256((settings.BASE_DIR / "requirements.txt").read_bytes())
    for folder, _, names in sorted(os.walk(settings.BASE_DIR / "static")):
        for name in sorted(names):
            path = Path(folder) / name
            digest.update(f"{path}:{path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()
