"""Simplified templates and the panel's form renderer give the same HTML as Django's own."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from uuid import UUID

import pytest
from django import forms
from django.conf import settings
from django.forms.renderers import DjangoTemplates
from django.template import Context, Engine, Node
from django.template.base import TextNode
from django.template.loader import get_template
from django.urls import NoReverseMatch, reverse, set_script_prefix
from django.utils.safestring import mark_safe

from panel.core.addresses import address
from panel.core.form_renderer import Renderer
from panel.core.templating import simplify

LIBRARIES = {
    "i18n": "django.templatetags.i18n",
    "ui": "panel.core.templatetags.ui",
}
SOURCES = (
    "{% translate 'Plain' %}",
    "{% translate \"100 % of it's <b>\" %}{% translate 'Any' as any %}[{{ any }}]{% translate text %}",
    "{% translate 'five'|upper %}",
    "{% blocktranslate %}50 % of <b> {{ text }} and {{ missing }}{% endblocktranslate %}",
    "{% blocktranslate trimmed with n=row.name m=html %}\n Select {{ n }}\n or {{ m }}{{ n }}\n{% endblocktranslate %}",
    "{% blocktranslate trimmed count n=number %}{{ n }} site{% plural %}{{ n }} sites{% endblocktranslate %}",
    "{% blocktranslate asvar kept %}kept {{ text }}{% endblocktranslate %}[{{ kept }}]",
    "{% blocktranslate %}%(text)s {{ text }}{% endblocktranslate %}",
    "{% blocktranslate %}no variable{% endblocktranslate %}",
    "{{ text }}{{ html }}{{ number }}{{ at }}{{ nothing }}{{ missing }}{{ row.name }}{{ text|upper }}{{ call }}",
    "{% autoescape off %}{{ text }}{% blocktranslate %}{{ text }}{% endblocktranslate %}{% endautoescape %}",
    "{% url 'hosts:detail' row.name %}{% url 'deployments:detail' uuid %}{% url 'dashboard' %}",
    "{% url 'deployments:drift-detail' number %}{% url 'hosts:detail' name=row.name %}",
    "{% url 'nothing' as url %}[{{ url }}]",
    "{% url nowhere as url %}{% autoescape off %}{% url 'search' %}{{ text }}{% endautoescape %}",
    "{% icon 'plus' %}{% icon icon %}{% badge 'new <b>' 'info' %}{% badge text %}",
    "{% if number == 7 %}a {% translate 'seven' %}{% elif number %}b{% else %}c{% endif %}",
    "{% for item in items %}{% translate 'a' %} {{ item }}{{ forloop.counter }},{% empty %}none{% endfor %}",
    "{% with other=text %}<p>{% translate 'x' %}</p>{{ other }}{% endwith %}",
    "{% card title=text %}{% translate 'x' %}{{ text }}{% endcard %}",
    "{% block one %}{% translate 'x' %}y{% block two %}{{ text }}{% endblock %}{% endblock %}",
)
VALUES = {
    "text": "<a> & 'b' \"c\" %",
    "html": mark_safe("<i>safe</i>"),
    "number": 7,
    "at": dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC),
    "nothing": None,
    "row": {"name": "web-1"},
    "uuid": UUID(int=7),
    "icon": "ok",
    "items": ["<", "b", 3],
    "call": lambda: "called <",
}


@pytest.mark.parametrize("source", SOURCES)
def test_simplified_template_has_the_same_output(source: str) -> None:
    source = "{% load i18n ui %}" + source
    engine = Engine(libraries=LIBRARIES)
    simplified = engine.from_string(source)
    simplify(simplified.nodelist)
    expected = engine.from_string(source).render(Context(VALUES))
    for _again in range(2):
        assert simplified.render(Context(VALUES)) == expected


def test_constant_parts_of_templates_become_one_text() -> None:
    template = Engine(libraries=LIBRARIES).from_string(
        "{% load i18n ui %}<p>{% translate 'One' %} {% icon 'ok' %}{% badge 'two' %}"
        "{% blocktranslate %}three{% endblocktranslate %}</p>"
    )
    simplify(template.nodelist)
    assert [type(node) for node in template.nodelist if not _is_load(node)] == [TextNode]


def _is_load(node: Node) -> bool:
    return type(node).__name__ == "LoadNode"


def test_every_template_of_the_panel_is_simplified() -> None:
    template = get_template("websites/list.html").template  # type: ignore[attr-defined]
    kinds = {type(node).__name__ for node in template.nodelist.get_nodes_by_type(Node)}
    assert "_Sentence" in kinds
    assert not kinds & {"VariableNode"}, "the loader of settings.TEMPLATES simplifies templates"


def test_unknown_view_in_a_simplified_template_is_an_error() -> None:
    template = Engine(libraries=LIBRARIES).from_string("{% url 'websites:nothing' 'a' %}")
    simplify(template.nodelist)
    with pytest.raises(NoReverseMatch):
        template.render(Context())


def test_kept_address_follows_the_script_prefix() -> None:
    assert address("hosts:detail", "web-1") == reverse("hosts:detail", args=["web-1"])
    set_script_prefix("/panel/")
    try:
        assert address("hosts:detail", "web-1") == reverse("hosts:detail", args=["web-1"]) == "/panel/hosts/web-1/"
    finally:
        set_script_prefix("/")


CHOICES = [("", "Any"), ("a&b", "A & <b>"), (3, 3), ("Group <1>", [("x", "X"), ("y", mark_safe("<b>Y</b>"))])]
WIDGETS = (
    (forms.Select(choices=CHOICES, attrs={"class": 'a "b"', "disabled": True, "hidden": False}), "x"),
    (forms.Select(choices=CHOICES), None),
    (forms.SelectMultiple(choices=CHOICES), ["a&b", 3]),
    (forms.TextInput(attrs={"placeholder": "<Search> & more", "required": True}), '"text" & <more>'),
    (forms.TextInput(), None),
    (forms.NumberInput(attrs={"min": 0, "max": 1000}), 1000),
    (forms.EmailInput(), "a@example.com"),
    (forms.PasswordInput(render_value=True), "secret"),
    (forms.HiddenInput(), "<"),
    (forms.CheckboxInput(), True),
    (forms.CheckboxInput(), False),
    (forms.Textarea(attrs={"rows": 3}), "\n<line>\nline & line"),
    (forms.Textarea(), None),
    (forms.DateTimeInput(format="%Y-%m-%dT%H:%M"), dt.datetime(2026, 11, 29, 12, 30)),
    (forms.ClearableFileInput(), None),
    (forms.RadioSelect(choices=CHOICES), "x"),
)


@pytest.mark.parametrize(("widget", "value"), WIDGETS, ids=lambda part: type(part).__name__)
def test_widget_is_rendered_as_by_django(widget: forms.Widget, value: object) -> None:
    name, attrs = "field & <1>", {"id": "id_field"}
    own = widget.render(name, value, attrs, renderer=Renderer())
    assert _without_space(own) == _without_space(widget.render(name, value, attrs, renderer=DjangoTemplates()))


def _without_space(html: str) -> str:
    """Without line breaks beside options, which browsers ignore."""
    return re.sub(r"\s*\n\s*(?=</?(?:opt|select))", "", html)


def test_forms_of_the_panel_use_its_renderer() -> None:
    assert settings.FORM_RENDERER == "panel.core.form_renderer.Renderer"
    assert not list((Path(settings.BASE_DIR) / "templates").glob("django/forms/**/*")), "own templates would be unused"
