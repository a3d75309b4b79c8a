"""Form with the filters of the audit log."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from panel.audit.models import AuditEntry
from panel.audit.words import ACTIONS, action_words, actions_named
from panel.core.forms import Form, LongSelect


class AuditFilterForm(Form):
    q = forms.CharField(
        label=_("Search"),
        required=False,
        max_length=200,
        widget=forms.SearchInput(attrs={"placeholder": _("Names, users, request IDs")}),
    )
    actor = forms.CharField(label=_("User name"), required=False, max_length=120)
    action = forms.ChoiceField(label=_("Action"), required=False, widget=LongSelect)
    since = forms.DateField(label=_("From"), required=False, widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(label=_("To"), required=False, widget=forms.DateInput(attrs={"type": "date"}))

    def __init__(self, *args: Any, entries: QuerySet[AuditEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries
        field = self.fields["action"]
        assert isinstance(field, forms.ChoiceField)
        named = sorted(((name, action_words(name)) for name in ACTIONS), key=lambda choice: choice[1])
        field.choices = [("", _("Any")), *named]

    def found(self) -> QuerySet[AuditEntry]:
        """Return the audit entries that match the form's filters; none if a filter is invalid."""
        if not self.is_valid():
            return self.entries.none()
        data, entries = self.cleaned_data, self.entries
        if data["q"]:
            words = data["q"]
            entries = entries.filter(
                Q(object_label__icontains=words)
                | Q(action__in=actions_named(words))
                | Q(actor_label__icontains=words)
                | Q(request_id=words)
            )
        if data["actor"]:
            entries = entries.filter(actor_label__iexact=data["actor"])
        if data["action"]:
            entries = entries.filter(action=data["action"])
        if data["since"]:
            entries = entries.filter(at__date__gte=data["since"])
        if data["until"]:
            entries = entries.filter(at__date__lte=data["until"])
        return entries
