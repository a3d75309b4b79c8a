"""Templates simplified after parsing, so that the rows of lists take less time to render. The output stays the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape as html_escape
from typing import Any, TypeVar

from django.conf import settings
from django.template import Node, NodeList, Template
from django.template.base import FilterExpression, TextNode, VariableNode, render_value_in_context
from django.template.context import Context
from django.template.defaulttags import IfNode, URLNode
from django.template.library import SimpleNode
from django.template.loaders import base, cached
from django.templatetags.i18n import BlockTranslateNode, TranslateNode
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from panel.core.addresses import KEPT, address

F = TypeVar("F", bound=Callable[..., Any])
_PLACE = re.compile(r"%\((\w+)\)s")


def constant(tag: F) -> F:
    """Mark a simple tag as one whose output depends only on its arguments.

    If all arguments in a template are literals, the tag is rendered once, after parsing.
    """
    tag.is_constant = True  # type: ignore[attr-defined]
    return tag


class _SimplifyingLoader(base.Loader):
    def get_template(self, template_name: str, skip: Any = None) -> Template:
        template = super().get_template(template_name, skip)
        simplify(template.nodelist)
        return template


class Loader(cached.Loader, _SimplifyingLoader):
    """Django's cached template loader; its cache has the simplified templates."""


def simplify(nodes: NodeList) -> None:
    """Replace template nodes, also nested ones, by faster nodes with the same output, and join adjacent constant
    texts. Nodes of unknown types stay as they are.
    """
    found: list[Node] = []
    for node in nodes:
        for inner in _lists_in(node):
            simplify(inner)
        simpler = _simplified(node)
        if isinstance(simpler, TextNode) and found and type(found[-1]) is TextNode:
            simpler, last = TextNode(found[-1].s + simpler.s), found.pop()
            simpler.token, simpler.origin = last.token, last.origin
        elif simpler is not node:
            simpler.token, simpler.origin = node.token, node.origin
        found.append(simpler)
    nodes[:] = found


def _lists_in(node: Node) -> Iterable[NodeList]:
    if isinstance(node, IfNode):  # its own `nodelist` is a copy
        return [inner for _condition, inner in node.conditions_nodelists]
    lists = (getattr(node, name, None) for name in node.child_nodelists)
    return [inner for inner in lists if isinstance(inner, NodeList)]


def _simplified(node: Node) -> Node:
    # exactly these classes: subclasses may render something else
    if type(node) is VariableNode:
        return _Value(node.filter_expression)
    if type(node) is URLNode and not node.kwargs and not node.asvar:
        return _Address(node.view_name, node.args, node.kwargs, node.asvar)
    if type(node) is SimpleNode:
        return _constant_tag(node)
    if settings.USE_I18N:  # the text depends on the language
        return node
    if type(node) is TranslateNode:
        return _constant_text(node)
    return _Sentence.of(node) if type(node) is BlockTranslateNode else node


def _is_literal(expression: FilterExpression) -> bool:
    return not expression.is_var and not expression.filters


def _constant_tag(node: SimpleNode) -> Node:
    arguments = [*node.args, *node.kwargs.values()]
    is_constant = getattr(node.func, "is_constant", False) and not node.takes_context and node.target_var is None
    if not is_constant or not all(_is_literal(argument) for argument in arguments):
        return node
    return TextNode(node.render(Context()))


def _constant_text(node: TranslateNode) -> Node:
    expression = node.filter_expression
    literal = getattr(expression.var, "literal", None)
    if node.asvar or node.message_context or expression.filters or not isinstance(literal, SafeString):
        return node
    return TextNode(str(literal))


class _Value(VariableNode):
    """Template node of a variable. A `str`, the most frequent type of value, is escaped without Django's checks."""

    def render(self, context: Context) -> str:
        try:
            value = self.filter_expression.resolve(context)
        except UnicodeDecodeError:  # as in Django
            return ""
        return _rendered(value, context)


def _rendered(value: Any, context: Context) -> str:
    kind = type(value)
    if kind is SafeString:
        return value  # type: ignore[no-any-return]
    if kind is str:
        return html_escape(value) if context.autoescape else value
    return render_value_in_context(value, context)


class _Sentence(Node):
    """Template node of a `blocktranslate` that was translated once, for the only language of the panel: constant
    texts with values between them. Each value is an expression or the name of a variable.
    """

    child_nodelists = ()

    def __init__(self, texts: list[str], values: list[FilterExpression | str]) -> None:
        self.texts, self.values = texts, values

    @classmethod
    def of(cls, node: BlockTranslateNode) -> Node:
        if node.plural or node.asvar or node.message_context:
            return node
        message, names = node.render_token_list(node.singular)
        if "%%(" in message or not all(name.isidentifier() for name in names):
            return node
        texts = [part.replace("%%", "%") for part in _PLACE.split(message)[::2]]
        return cls(texts, [node.extra_context.get(name, name) for name in names]) if names else TextNode(texts[0])

    def render(self, context: Context) -> str:
        parts = [self.texts[0]]
        for value, text in zip(self.values, self.texts[1:], strict=True):
            found = context.get(value, "") if isinstance(value, str) else value.resolve(context)
            parts += (_rendered(found, context), text)
        return "".join(parts)


class _Address(URLNode):
    """Template node of a `url` tag with positional arguments; its URL comes from the cache of core/addresses.py."""

    def render(self, context: Context) -> str:
        arguments = [argument.resolve(context) for argument in self.args]
        if not context.autoescape or not all(type(argument) in KEPT for argument in arguments):
            return super().render(context)
        request = getattr(context, "request", None)
        match = getattr(request, "resolver_match", None)
        app = getattr(request, "current_app", None) or getattr(match, "namespace", None)
        return conditional_escape(address(self.view_name.resolve(context), *arguments, app=app))
