"""The supported load tools, separate from the models so that code without database access can import them."""

from __future__ import annotations

from django.db import models


class Tool(models.TextChoices):
    AB = "ab", "ab"
    H2LOAD = "h2load", "h2load"
    WRK = "wrk", "wrk"
    SIEGE = "siege", "siege"
    HEY = "hey", "hey"
