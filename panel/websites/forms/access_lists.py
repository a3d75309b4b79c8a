"""Form of an access list."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import LinesField
from panel.websites.forms.base import PartForm, offer_teams
from panel.websites.models import AccessList


class AccessListForm(PartForm[AccessList]):
    """A new list, or the sources of a stored one, whose name and team stay."""

    sources = LinesField(
        label=_("Addresses and networks"),
        required=True,
        help_text=_("One per line, for example `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`."),
    )

    class Meta:
        model = AccessList
        fields = ("name", "team", "sources")
        labels = {"name": _("Name"), "team": _("Team")}
        help_texts = {"name": _("Access rules name the list with @, for example `allow @office`.")}

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["name"], self.fields["team"]
            return
        offer_teams(self, teams)
