"""One change of three files that must be had whole or not at all, and the questions that prove it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.protocol import FileChange
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites, sha256

IDENT = "deploy-1"


class Scene:
    """`old` and `new` are what the files hold before and after: shop changes, cart is new, gone is removed."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        sites.put("gone.conf", sites.text("gone", "gone"))
        sites.server.reload()
        self.old = self._files()
        self.new = {
            **{name: text for name, text in self.old.items() if name != "gone.conf"},
            "shop.conf": sites.text("shop", "new"),
            "cart.conf": sites.text("cart", "cart"),
        }

    def request(self, *, healthy: bool = True) -> dict[str, Any]:
        """The change; unless `healthy`, it makes the site worse: a text that its page has before is expected after."""
        sites = self.sites
        probe = replace(sites.probe("shop"), text="" if healthy else "old")
        return sites.request(
            sites.shop(self.new["shop.conf"], expect=sha256(self.old["shop.conf"])),
            FileChange(str(sites.path("cart.conf")), "put", self.new["cart.conf"], expect=""),
            FileChange(str(sites.path("gone.conf")), "remove"),
            ident=IDENT,
            probes=[probe],
        )

    def assert_answers(self) -> None:
        """Right after the fault, whatever lies on the disk: every site that was there answers."""
        assert self.sites.body("blog") == "blog"
        assert self.sites.body("shop") in {"old", "new"}

    def assert_whole(self, recovered: AgentProcess) -> str:
        """After `recover`: "old" or "new", and the files, the answers and the journal agree about which."""
        recovered.call("recover")
        files = self._files()
        assert files in (self.old, self.new), sorted(files)
        which = "old" if files == self.old else "new"
        assert self.sites.body("shop") == which
        assert self.sites.body("blog") == "blog"
        assert not self.sites.leftovers()
        outcome = recovered.call("status", {"transaction": IDENT})["outcome"]
        assert outcome in ({"applied"} if which == "new" else {"rolled_back", "unknown"})
        assert recovered.call("recover") == {"transactions": []}
        return which

    def assert_goes_on(self, agent: AgentProcess) -> None:
        """Whatever happened, the next deployment works."""
        text = self.sites.text("shop", "next")
        result = agent.call("apply", self.sites.request(self.sites.shop(text), ident="deploy-2"))
        assert result["outcome"] == "applied", result["error"]
        assert self.sites.body("shop") == "next"

    def _files(self) -> dict[str, str]:
        folder = Path(self.sites.server.root) / "conf.d"
        return {path.name: path.read_text() for path in sorted(folder.glob("*.conf"))}
