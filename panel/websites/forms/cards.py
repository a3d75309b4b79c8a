"""Cards of a form: groups of its fields, in the order in which the page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms.boundfield import BoundField


@dataclass(frozen=True)
class Card:
    """One group of fields of a form.

    `fields`: a TypedDict of definitions.py, whose keys are the field names. `handlers`: the handlers whose locations
    have these fields, separated by spaces; "" for all. `wide`: fields that take the whole width.
    """

    title: Any
    fields: type
    handlers: str = ""
    wide: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownField:
    bound: BoundField
    wide: bool
    is_typed: bool  # entered by keyboard, so that errors are shown during typing
    notes: Sequence[str]


@dataclass(frozen=True)
class ShownCard:
    title: Any
    handlers: str
    fields: list[ShownField]


def shown(form: forms.BaseForm, cards: Sequence[Card], notes: Mapping[str, Sequence[str]]) -> Iterator[ShownCard]:
    """Yield the cards with the form's fields. `notes` maps the name of a field to lines of text to show below the
    field.
    """
    for card in cards:
        fields = [_field(form[name], name in card.wide, notes.get(name, ())) for name in card.fields.__annotations__]
        yield ShownCard(card.title, card.handlers, fields)


def _field(bound: BoundField, wide: bool, notes: Sequence[str]) -> ShownField:
    is_chosen = isinstance(bound.field.widget, forms.Select | forms.CheckboxInput)
    return ShownField(bound, wide, not is_chosen, notes)
