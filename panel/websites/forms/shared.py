"""Forms to create shared settings and to change their content."""

from __future__ import annotations

from typing import Any, TypeVar

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import LinesField
from panel.websites import lines
from panel.websites.forms.base import PartForm, RawDirectivesForm, offer_teams
from panel.websites.models import AccessList, DirectiveSet, HeaderSet, SharedSetting

S = TypeVar("S", bound=SharedSetting)

_LABELS = {"name": _("Name"), "team": _("Team")}


class SharedSettingForm(PartForm[S]):
    """Form of a shared setting. Fields in `FIXED` cannot change after the setting was created."""

    FIXED: tuple[str, ...] = ("name", "team")

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            offer_teams(self, teams)
            return
        for name in self.FIXED:
            del self.fields[name]


class AccessListForm(SharedSettingForm[AccessList]):
    sources = LinesField(
        label=_("Addresses and networks"),
        required=True,
        help_text=_("One per line, for example `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`."),
    )

    class Meta:
        model = AccessList
        fields = ("name", "team", "sources")
        labels = _LABELS
        help_texts = {"name": _("Access rules name the list with @, for example `allow @office`.")}


class HeaderSetForm(SharedSettingForm[HeaderSet]):
    headers = LinesField(
        label=_("Response headers"),
        required=True,
        to_text=lines.headers_to_text,
        from_text=lines.headers_from_text,
        help_text=_(
            "One per line, for example `X-Frame-Options: DENY`. Start a line with `[2xx]` to leave out error responses."
        ),
    )

    class Meta:
        model = HeaderSet
        fields = ("name", "team", "headers")
        labels = _LABELS
        help_texts = {
            "name": _(
                "To use the set, enter @ and its name in the response headers of a site, for example `@security`."
            )
        }


class DirectiveSetForm(SharedSettingForm[DirectiveSet], RawDirectivesForm[DirectiveSet]):
    FIXED = ("name", "team", "engine")

    class Meta:
        model = DirectiveSet
        fields = ("name", "team", "engine", "text")
        labels = {**_LABELS, "engine": _("Web server"), "text": _("Directives")}
        help_texts = {
            "name": _("To use the set, write its name on a line of the raw directives, for example `@cors`."),
            "text": _(
                "Written in the web server's own syntax. Paddock checks the directives in each site that uses the set."
            ),
        }
        widgets = {"text": forms.Textarea(attrs={"rows": 8, "class": "lines", "spellcheck": "false"})}
