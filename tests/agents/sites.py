"""A real server with two sites, and requests that change one of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from agents.protocol import ApplyRequest, EngineControl, FileChange, Probe, plain
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.openlitespeed import OpenLiteSpeedInstance
from tests.support.ports import free_port

NGINX_SITE = 'server {{ listen 127.0.0.1:{port}; server_name {name}; location / {{ return {code} "{body}\\n"; }} }}\n'
APACHE_SITE = """\
<VirtualHost 127.0.0.1:{port}>
    ServerName {name}
    DocumentRoot {root}/www
    RewriteEngine On
    ErrorDocument {code} "{body}
    RewriteRule .* - [R={code},L]
</VirtualHost>
"""
# The text is a file beside the pages, named by a digest: this server's fixed answers are files.
OPENLITESPEED_SITE = """\
virtualHost {name} {{
  vhRoot {root}/www/
  allowSymbolLink 1
  enableScript 1
  restrained 0
  listeners main
  vhDomain {name}
  docRoot {root}/www
  rewrite {{
    enable 1
    rules <<<END_rules
RewriteRule .* {rule}
END_rules
  }}
}}
"""
OPENLITESPEED_PORT = "listener main {{\n  address 127.0.0.1:{port}\n  secure 0\n}}\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Sites:
    """`shop` is the site that a test changes, `blog` the neighbour that must not notice."""

    def __init__(self, server: NginxInstance | ApacheInstance | OpenLiteSpeedInstance) -> None:
        self.server = server
        self.port = free_port()
        if server.engine == "apache":
            self.put("00-listen.conf", f"Listen 127.0.0.1:{self.port}\n")
        if server.engine == "openlitespeed":
            self.put("00-listen.conf", OPENLITESPEED_PORT.format(port=self.port))
        self.put("blog.conf", self.text("blog", "blog"))
        self.put("shop.conf", self.text("shop", "old"))

    def text(self, name: str, body: str, code: int = 203) -> str:
        if self.server.engine == "openlitespeed":
            return self._openlitespeed(f"{name}.test", body, code)
        if self.server.engine == "apache":
            code = 410 if code == 203 else code  # a code that mod_rewrite ends a request with
            return APACHE_SITE.format(port=self.port, name=f"{name}.test", body=body, code=code, root=self.server.root)
        return NGINX_SITE.format(port=self.port, name=f"{name}.test", body=body, code=code)

    def _openlitespeed(self, name: str, body: str, code: int) -> str:
        page = f"{sha256(body)}.txt"
        (self.server.root / "www" / page).write_text(body)
        rule = f"/{page} [L]" if code == 203 else f"- [R={code},L]"
        return OPENLITESPEED_SITE.format(name=name, root=self.server.root, rule=rule)

    def path(self, name: str) -> Path:
        return self.server.root / "conf.d" / name

    def put(self, name: str, text: str) -> None:
        self.path(name).write_text(text)

    @property
    def control(self) -> EngineControl:
        paths = {name: value for name, value in self.server.paths.items() if name != "log_dir"}
        return EngineControl(engine=self.server.engine, **paths)

    def probe(self, name: str, path: str = "/") -> Probe:
        return Probe("127.0.0.1", self.port, f"{name}.test", path)

    def request(self, *files: FileChange, ident: str = "", **changes: Any) -> dict[str, Any]:
        """An ApplyRequest as plain data: these files, this server, shop probed and blog guarded."""
        request = ApplyRequest(
            transaction=ident or uuid4().hex,
            roots=[str(self.server.root)],
            files=list(files),
            engines=[self.control],
            probes=[self.probe("shop")],
            guards=[self.probe("blog")],
        )
        data: dict[str, Any] = plain(replace(request, **changes))
        return data

    def shop(self, text: str, **changes: Any) -> FileChange:
        return replace(FileChange(str(self.path("shop.conf")), "put", text), **changes)

    def body(self, name: str) -> str:
        return ask(self.port, host=f"{name}.test").text.strip()

    def leftovers(self) -> list[str]:
        return [str(path) for path in self.server.root.rglob(".paddock-*")]
