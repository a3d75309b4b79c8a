"""Form of a placement."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.core.forms import InWords, LinesField, TagsFormField
from panel.placements.values import from_text, to_text


class PlacementForm(InWords, forms.Form):
    tags = TagsFormField(label=_("Tags of the hosts"), required=True)
    values = LinesField(
        label=_("Values for individual hosts"),
        required=False,
        rows=5,
        to_text=to_text,
        from_text=from_text,
        help_text=_(
            "One per line: host, JSON pointer into the site's definition, value, for example `web-2 "
            "/blocks/0/listens/0/address = 192.0.2.2`."
        ),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
