"""`manage.py web`: run one web process, for installations that start each process separately."""

from __future__ import annotations

import argparse

from django.core.management.base import BaseCommand

from panel.core.serving import serve


class Command(BaseCommand):
    help = (
        "Run one web process of the panel. You can run several web processes behind a proxy, each on a different port."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--address",
            default="127.0.0.1",
            help="address to listen on (default: 127.0.0.1, which only this host can reach)",
        )
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: object, address: str, port: int, **options: object) -> None:
        serve(address, port)
