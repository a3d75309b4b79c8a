"""Valid bodies: from the OpenAPI document for the API, from the pages' own forms for the pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from panel.api.schema import document
from tests.suites.security import world

Schema = dict[str, Any]
# What names rows of the world, by the field that refers to them.
REFERENCES: dict[str, Any] = {
    "team": "owners", "teams": ["owners"], "site": world.NAME, "sites": [world.NAME], "web_server": world.KEY,
    "web_servers": [world.KEY], "host": world.HOST, "hosts": [world.HOST], "block": world.KEY,
    "certificate": world.NAME,
    "upstream": world.NAME, "php_pool": world.NAME, "scenario": world.KEY, "revision": world.KEY,
    "run": str(world.RUN),
    "runs": [str(world.RUN)], "user": world.KEY, "name": "attack", "slug": "attack", "username": "attack",
    "root": "/srv/www/attack", "domains": ["attack.example"], "names": ["attack.example"], "pattern": "/attack/",
    "cron": "0 3 * * *", "timezone": "UTC", "password": "a fairly long secret 7", "role": "admin",
    "text": "expires 1h;",
    "engine": "nginx", "address": "10.9.8.7:8080", "paths": ["/"], "suite": "small-static-files", "preset": "short",
    "number": 1, "action": "check", "application": "wordpress", "query": "q=a", "page": "sites", "notes": "changed",
    "keepalive": 8,
    "tool": "ab", "arguments": {"requests": 10, "concurrency": 1}, "scopes": ["admin", "read"], "tags": ["attack"],
    "locations": [], "blocks": [{"listens": [{"port": 80}], "names": ["attack.example"]}], "handler": "static",
    "email": "a@attack.example", "webhook_url": "https://hooks.example/attack", "health_path": "/ok",
    "ids": [world.KEY],
    "order": [world.KEY], "fingerprint": "SHA256:x", "is_active": True, "position": 0, "target": "0", "url": "http://a/",
}  # fmt: skip

EASY = ("notes", "text", "tags", "name", "root", "pattern", "cron", "keepalive", "email", "title", "address", "role")


def operations() -> Iterator[tuple[str, str, Schema]]:
    """(path template, method, operation) of the API."""
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete"):
                yield path, method.upper(), operation


def resolved(schema: Schema) -> Schema:
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for word in ("allOf", "oneOf", "anyOf"):
        if word in schema:
            return resolved(schema[word][0])
    return schema


def body_schema(operation: Schema) -> Schema | None:
    content = operation.get("requestBody", {}).get("content", {})
    return resolved(content["application/json"]["schema"]) if "application/json" in content else None


def valid(schema: Schema, name: str = "", depth: int = 0) -> Any:
    """A value that the schema allows, naming rows of the world where a field refers to some."""
    schema = resolved(schema)
    kind = kind_of(schema)
    if name in REFERENCES and not (isinstance(REFERENCES[name], list) and kind != "array"):
        return REFERENCES[name]
    if "enum" in schema:
        return schema["enum"][0]
    if kind == "object" and depth < 6:
        return {key: valid(value, key, depth + 1) for key, value in sent(schema).items()}
    if kind == "array":
        return [] if depth > 2 else [valid(schema["items"], "", depth + 1)]
    plain: dict[Any, Any] = {"integer": schema.get("minimum", 1), "number": 1.0, "boolean": True, "string": "attack"}
    formats = {"uuid": str(world.RUN), "date": "2030-01-01", "date-time": "2030-01-01T00:00:00Z", "ipv4": "10.9.8.7"}
    return formats.get(schema.get("format", ""), plain.get(kind))


def kind_of(schema: Schema) -> str:
    """The type, without null."""
    kind = schema.get("type", "")
    return kind if isinstance(kind, str) else next(item for item in kind if item != "null")


def sent(schema: Schema) -> Schema:
    """The properties that must be there; where none must be, one that is easily changed, or all."""
    found = {key: value for key, value in schema.get("properties", {}).items() if wanted(key, value)}
    required = {key: found[key] for key in schema.get("required", ()) if key in found}
    easy = [key for key in EASY if key in found][:1]
    return required or {key: found[key] for key in easy} or found


def wanted(key: str, schema: Schema) -> bool:
    return not resolved(schema).get("readOnly") and not schema.get("readOnly") and key not in ("row_version", "dry_run")


@dataclass
class Form:
    """One form of a page: where it leads and what its fields hold."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, value in self.fields:
            found.setdefault(name, []).append(value or str(_filled(name, self.kinds.get(name, ""))))
        return found


def _filled(name: str, kind: str) -> str:
    value = REFERENCES.get(name, "")
    if kind in ("number", "checkbox", "hidden"):
        return "1" if kind == "number" else ""
    return str(value[0]) if isinstance(value, list) and value else "" if isinstance(value, list | dict) else str(value)


class _Forms(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.forms = page, list[Form]()
        self.open: Form | None = None
        self.select = self.area = ""
        self.options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {key: value or "" for key, value in attrs}
        if tag == "form":
            self.open = Form(urljoin(self.page, at.get("action") or self.page), at.get("method", "get").upper())
            self.forms.append(self.open)
        form = self.open
        if form is None:
            return
        name, kind = at.get("name", ""), at.get("type", "text")
        if tag == "select":
            self.select, self.options = name, []
        elif tag == "textarea":
            self.area = name
            form.fields.append((name, ""))
        elif tag == "option" and self.select:
            self.options.append((at.get("value", ""), "selected" in at))
        elif name and (tag == "input" or (tag == "button" and at.get("type", "submit") == "submit")):
            if kind not in ("checkbox", "radio") or "checked" in at:
                form.fields.append((name, at.get("value", "")))
            form.kinds[name] = kind

    def handle_data(self, data: str) -> None:
        if self.area and self.open is not None:
            name, value = self.open.fields[-1]
            self.open.fields[-1] = (name, value + data.lstrip("\n"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select" and self.open is not None and self.select:
            chosen = [value for value, is_chosen in self.options if is_chosen]
            usual = chosen or [value for value, _ in self.options if value][:1]
            self.open.fields += [(self.select, value) for value in usual]
            self.select = ""
        elif tag == "textarea":
            self.area = ""
        elif tag == "form":
            self.open = None


def forms_of(page: str, text: str) -> list[Form]:
    parser = _Forms(page)
    parser.feed(text)
    return parser.forms
