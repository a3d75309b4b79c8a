"""Form of the page “Which location?”, in which users enter a URL as in a browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.core.forms import Form
from panel.rendering.explain import Request
from panel.websites import validators

PORTS = {"http": 80, "https": 443}


class ExplainForm(Form):
    url = forms.CharField(
        label=_("Address"),
        max_length=2000,
        error_messages={"required": _("Enter an address, for example https://www.example.com/shop.")},
        widget=forms.TextInput(attrs={"class": "mono", "inputmode": "url", "spellcheck": "false"}),
        help_text=_("A URL, for example `https://www.example.com/shop/cart.php?item=7`."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.question: Request | None = None

    def clean_url(self) -> str:
        value = str(self.cleaned_data["url"])
        validators.validate_line(value)
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError as error:
            raise ValidationError(gettext("This is not a valid URL: %s.") % error) from error
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValidationError(gettext("Enter a complete URL with http:// or https:// and a host name."))
        scheme, netloc = parts.scheme, parts.netloc.rpartition("@")[2]
        path = parts.path or "/"
        target = f"{path}?{parts.query}" if parts.query else path
        self.question = Request(
            scheme="https" if scheme == "https" else "http", host=netloc, port=port or PORTS[scheme], path=target
        )
        return value
