"""Hostile definitions of sites, as an operator may send them, and the requests that aim at what each of them does."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.suites.attack.paths.folders import SECRET, Folders

# Pieces of expressions, each with what may stand in a path for it, as the client sends it.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("(.)", (".", "a", "/")),
    ("(..)", ("..", "./", "/.", "al")),
    ("(.*)", ("..", "", f"../beta/{SECRET}", f"beta/{SECRET}", "..%0a", "files", f"..%2fbeta/{SECRET}", "..%0a/x")),
    ("(.+)", ("..", f"beta/{SECRET}", "a.txt", "..%0a", f"../../beta/{SECRET}", SECRET)),
    ("(.*?)", ("..", "", "x", f"beta/{SECRET}", "..%0a")),
    ("([^/]+)", ("..", "a.txt", "beta", "..%0a", ".", "...")),
    ("([^/.]+)", ("beta", "files", "bet", "2")),
    ("([a-z.]*)", ("..", "", "beta", "a.txt")),
    ("(\\W+)", ("..", "../..", "/../", "%0a..", "..%0a")),
    ("(/.*)?", (f"/beta/{SECRET}", "", "/..%0a", "/..", "/files")),
    ("([.]+)", ("..", ".", "...")),
    ("(\\.\\.|x)", ("..", "x")),
    ("(?=(.*))", ("",)),
)
LITERALS = (("a", "a"), ("x", "x"), ("/", "/"), ("-", "-"), ("", ""), ("\\s?", "%0a"), ("\\.?", "."), ("/f", "/f"))
# Expressions with a replacement, and requests that would climb by them.
KNOWN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("^/f/(.*)$", "/../../../../../../$1", ("/f/etc/passwd",)),
    ("^/(.)(.)a/(.*)$", "/$1$2/$3", (f"/..a/beta/{SECRET}", f"/..a/{SECRET}", "/..a/..a/x")),
    ("^/(..)a(.*)$", "/$1$2", (f"/..a/beta/{SECRET}", "/..a", "/..a/")),
    ("^/(.*)x/(.*)$", "/$1/$2", (f"/..x/beta/{SECRET}", f"/files/..x/..x/{SECRET}")),
    ("^/([^/]*)-(.*)$", "/$1/$2", (f"/..-beta/{SECRET}", f"/..-{SECRET}", "/..-")),
    ("^/f/(.*)$", f"/$1/beta/{SECRET}", ("/f/..%0a",)),
    ("^/f/(.*)", f"/$1/beta/{SECRET}", ("/f/..%0a", "/f/..%0ax")),
    ("^/(.*)$", "/$1/", ("/..%0a",)),
    ("^/(.*)$", "/$1", ("/..%0a", "/f/..%0a")),
    ("^/(.*)\\.html$", "/$1", ("/...html", f"/..x/beta/{SECRET}.html")),
    ("^/f/(.+)\\s$", f"/$1/{SECRET}", ("/f/..%0a", "/f/..%20")),
    ("^/f(.*)$", "/.$1", (f"/f./beta/{SECRET}", f"/f./{SECRET}", "/f.")),
    ("^/f(.*)$", "$1", (f"/fbet/{SECRET}", f"/f2/{SECRET}")),
    ("^/f(?:/x)?(.*)$", "bet$1", (f"/f/{SECRET}",)),
    ("^/f", "/$arg_f", ("/f",)),
    ("^/f", "$http_x", ("/f",)),
    ("^/f", "/${cookie_x}", ("/f",)),
    ("^/f", "/files/$arg_f", ("/f",)),
    ("^/f", "/$remote_user", ("/f",)),
    ("^/f", f"/$request_method/beta/{SECRET}", ("/f",)),
    ("^/f", f"/$host/beta/{SECRET}", ("/f",)),
    ("^/f", "/x$request_uri", (f"/f/../../../beta/{SECRET}", f"/f?/../../beta/{SECRET}")),
    ("^/f", "/$args", (f"/f?../beta/{SECRET}",)),
    ("^/f(?<rest>.*)$", "/.${rest}/x", (f"/f./beta/{SECRET}",)),
)
VALUES = (
    "arg_f", "http_x", "cookie_x", "args", "request_uri", "host", "http_host", "remote_user", "request_method", "uri",
    "document_root", "query_string", "request_filename", "server_name",
)  # fmt: skip
WORDS = ("/", ".", "x", "/files", f"/beta/{SECRET}", SECRET, "bet/", "2/", "")
FLAGS = ("", "last", "break", "break")
PREFIXES = ("/x", "/x/", "/f", "/files/", "/", "/a/b", "/x.", "/f/x/")
BESIDE = (f"../{SECRET}", "..", "../", "./", f"bet/{SECRET}", f"2/{SECRET}", f"../beta/{SECRET}", "..%0a")
ERROR_PAGES = ("/404.html", f"/../beta/{SECRET}", f"/x../{SECRET}", "/x/..%2f", "/f..", "/..")
INDEXES = ("index.html", "../index.html", f"/x../{SECRET}", f"x/../../{SECRET}", "/f./index.html")


@dataclass
class Hostile:
    """`aims`: paths as a client sends them, which fit the definition's expressions."""

    name: str
    data: dict[str, Any]
    aims: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"{self.name}.test"


class Drawing:
    """One definition by chance: mostly of one kind, so that nothing else of it stands in the way."""

    def __init__(self, chance: Random, folders: Folders, backend: str) -> None:
        self.chance, self.folders, self.backend, self.aims = chance, folders, backend, list[str]()

    def site(self, name: str, port: int) -> Hostile:
        kinds = [
            self.chance.choice(("alias", "alias", "try", "try", "captured", "rewrite", "rewrite", "block", "proxy"))
        ]
        while self.chance.random() < 0.3:
            kinds.append(self.chance.choice(("alias", "try", "captured", "rewrite", "block", "proxy", "root")))
        block: dict[str, Any] = {
            "listens": [{"port": port}],
            "names": [f"{name}.test"],
            "root": self.folder(),
            "autoindex": self.chance.random() < 0.7,
            "rewrites": [self.rewrite() for kind in kinds if kind == "block"],
            "locations": self.locations(kinds),
        }
        if self.chance.random() < 0.1:
            block["error_pages"] = [{"codes": [404, 403], "uri": self.chance.choice(ERROR_PAGES), "response": None}]
        if self.chance.random() < 0.1:
            block["index"] = [self.chance.choice(INDEXES)]
        upstreams = [{"name": "app", "servers": [{"address": self.backend}]}] if "proxy" in kinds else []
        return Hostile(name, {"name": name, "blocks": [block], "upstreams": upstreams}, self.aims)

    def folder(self, end: str = "") -> str:
        mine, root = self.folders.mine, self.folders.root
        honest = (f"{mine}", f"{mine}", f"{mine}", f"{mine}/files", f"{mine}/files/x")
        wrong = (f"{mine}/../beta", f"{root}/beta", f"{mine}//files", f"{mine}/.", f"{root}", f"{root}/alphabet")
        return self.chance.choice(honest if self.chance.random() < 0.97 else wrong) + end

    def locations(self, kinds: list[str]) -> list[dict[str, Any]]:
        found: dict[tuple[bool, str], dict[str, Any]] = {}
        for kind in kinds:
            if kind != "block":
                location = self.location(kind)
                found.setdefault((location["match"] in ("", "^~"), location["pattern"]), location)
        return list(found.values())

    def location(self, kind: str) -> dict[str, Any]:
        if kind in ("captured", "rewrite") and self.chance.random() < 0.7:
            pattern, groups = self.expression()
            found: dict[str, Any] = {"match": "~", "pattern": pattern}
        else:
            pattern, groups = self.chance.choice(PREFIXES), 0
            found = {"match": self.chance.choice(("", "", "^~", "=")), "pattern": pattern}
            self.aims += [f"{pattern}{end}" for end in BESIDE]
        found |= {"handler": "proxy" if kind == "proxy" else "static", "autoindex": self.chance.choice((True, None))}
        if kind == "proxy":
            found |= {"upstream": "app", "autoindex": None}
        elif kind == "alias":
            found["alias"] = self.folder(self.chance.choice(("", "/")))
        elif kind == "root":
            found["root"] = self.folder()
        elif kind in ("try", "captured"):
            items = [self.made(groups) for _ in range(self.chance.randint(1, 2))]
            found["try_files"] = [*items, self.chance.choice(("=404", self.made(groups)))]
            if self.chance.random() < 0.15 and found["match"] != "~":
                found["alias"] = self.folder(self.chance.choice(("", "/")))
        else:
            found["rewrites"] = [self.rewrite() for _ in range(self.chance.randint(1, 2))]
            if self.chance.random() < 0.5:
                found |= {"match": "", "pattern": "/"}
        return found

    def expression(self) -> tuple[str, int]:
        """An expression with how many groups it has; what fits it joins the aims."""
        start = self.chance.choice(("^/", "^/", "/f", "^/f/"))
        pieces, ways, groups = [start], [[start.removeprefix("^")]], self.chance.randint(1, 3)
        for _ in range(groups):
            text, fits = self.chance.choice(GROUPS)
            literal, sent = self.chance.choice(LITERALS)
            pieces += [text, literal]
            ways += [list(fits), [sent]]
        pieces.append(self.chance.choice(("$", "$", "", "\\z")))
        self.aims += ["".join(self.chance.choice(way) for way in ways) for _ in range(8)]
        return "".join(pieces), groups

    def rewrite(self) -> dict[str, str]:
        flag = self.chance.choice(FLAGS)
        if self.chance.random() < 0.5:
            pattern, replacement, aims = self.chance.choice(KNOWN)
            self.aims += [*aims, *aims]
            return {"pattern": pattern, "replacement": replacement, "flag": flag}
        pattern, groups = self.expression()
        return {"pattern": pattern, "replacement": self.made(groups), "flag": flag}

    def made(self, groups: int) -> str:
        """A path made of captures, client's values and fixed text."""
        if self.chance.random() < 0.15:
            return self.chance.choice(("$uri", "$uri/", "/new/$1", "/$1", "/files/$1", "$uri.html"))
        parts = ["/"] if self.chance.random() < 0.85 else []
        for number in range(self.chance.randint(1, 3)):
            kind = self.chance.random()
            if kind < 0.6 and groups:
                parts.append(f"${self.chance.choice((min(number + 1, groups), self.chance.randint(1, groups)))}")
            elif kind < 0.8:
                parts.append(f"${{{self.chance.choice(VALUES)}}}")
            else:
                parts.append(self.chance.choice(WORDS))
        made = "".join(parts)
        return made if made.startswith(("/", "$")) else f"/{made}"
