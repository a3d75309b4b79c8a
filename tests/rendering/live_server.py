"""A real nginx or Apache for tests of which server block answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from panel.rendering import render, render_web_server
from panel.rendering.spec import Header, Listen, Location, ServerBlock, SiteSpec, WebServerSpec
from tests.rendering.servers import write_files
from tests.support.apache import ApacheInstance
from tests.support.http_client import Answer, ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually


class Live:
    """A real server that takes one set of generated sites after the other; a site more tells when it has taken them."""

    def __init__(self, engine: str, root: Path) -> None:
        self.server = NginxInstance(root) if engine == "nginx" else ApacheInstance(root)
        self.port = free_port()
        self.web_server = WebServerSpec(engine, "sites", str(root), str(root / "log"), own_ports=frozenset())  # type: ignore[arg-type]
        self.generation = 0
        self.root = root

    def take(self, *specs: SiteSpec, told_at: tuple[str, ...] = ("",)) -> None:
        """`told_at`: where the site more listens; a site on 127.0.0.1 would take its requests too."""
        self.generation += 1
        text = f"generation {self.generation}"
        answer = Location("", "/", "return", return_code=200, return_value=text)
        listens = tuple(Listen(self.port, address) for address in told_at)
        probe = SiteSpec("probe", (ServerBlock(listens, ("probe.invalid",), locations=(answer,)),))
        sites = [self.marked(spec) for spec in (*specs, probe)]
        for link in (self.root / "sites-enabled").iterdir():
            link.unlink()
        files = [file for item in sites for file in render(item, self.web_server)]
        write_files([*files, *render_web_server(sites, self.web_server)], self.root)
        self.server.start() if self.generation == 1 else self.server.reload()
        assert eventually(lambda: ask(self.port, host="probe.invalid").text == text, every_s=0.01)

    def marked(self, spec: SiteSpec) -> SiteSpec:
        """Every answer tells which configuration it is of: an old process, even one that began while the reload was
        on its way, may take a request yet."""
        header = (Header("X-Generation", str(self.generation), always=True),)
        return replace(spec, blocks=tuple(replace(block, headers=header) for block in spec.blocks))

    def stop(self) -> None:
        self.server.stop()

    def answer(self, path: str, host: str = "a.test") -> str:
        answers: list[Answer] = []

        def is_of_this_generation() -> bool:
            answers.append(ask(self.port, path, host=host))
            return answers[-1].headers.get("x-generation") == str(self.generation)

        assert eventually(is_of_this_generation, every_s=0.01), (path, host, answers[-1:])
        found = answers[-1]
        return found.text if found.status == 200 else str(found.status)
