"""Which templates a page was made from, told once a page and not for each of its parts.

Django's test client hears of every template that is rendered, those of each field and icon too, and copies all of their
contexts: a twentieth of what a page costs its test. Tests ask for the page's own.
"""

from __future__ import annotations

import threading
from typing import Any

from django.template.context import Context
from django.test import utils
from django.test.signals import template_rendered

_now = threading.local()


def install() -> None:
    """Before Django sets up its test environment."""
    utils.instrumented_test_render = _render


def _render(template: Any, context: Context) -> Any:
    if getattr(_now, "is_part", False):
        return template.nodelist.render(context)
    template_rendered.send(sender=template, template=template, context=context)
    _now.is_part = True
    try:
        return template.nodelist.render(context)
    finally:
        _now.is_part = False
