"""Transactions on real web servers: applied as a whole or undone."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.protocol import FileChange, Probe
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import Sites, sha256
from tests.support.http_client import ask
from tests.support.ports import free_port


def names(steps: list[dict[str, Any]]) -> list[str]:
    return [step["name"] for step in steps]


def test_apply_returns_when_change_is_live(agent: AgentProcess, sites: Sites) -> None:
    events: list[dict[str, Any]] = []
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new"))), events)
    assert result["outcome"] == "applied", result
    assert sites.body("shop") == "new"
    assert sites.body("blog") == "blog"
    assert names(result["steps"]) == ["lock", "check", "journal", "stage", "test", "switch", "reload", "probe"]
    ended = [event for event in events if event["status"] != "running"]
    assert ended == result["steps"][: len(ended)], "what was streamed is the beginning of what the result holds"
    assert not sites.leftovers()


def test_apply_reports_probe_response_of_each_site(agent: AgentProcess, sites: Sites) -> None:
    steps = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new"))))["steps"]
    asked, _, others = steps[-1]["output"].partition("\n")
    assert re.fullmatch(r"http://shop\S* at \S+ responds with \d{3}, as before", asked)
    assert others == "1 of the web server's other addresses respond as before"


def test_apply_rolls_back_when_a_page_that_was_there_is_not_found(agent: AgentProcess, sites: Sites) -> None:
    before = ask_status(sites)
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "nothing", 404))))
    if before >= 400:  # Apache's sites here answer 410, which is no better than 404
        assert result["outcome"] == "applied", result
        return
    assert result["outcome"] == "rolled_back", result
    assert "responds with 404 now and responded with 203 before (is the document root right" in result["error"]
    assert sites.body("shop") == "old"
    (row,) = [row for row in result["checks"] if row["kind"] == "health"]
    assert (row["verdict"], row["before"]["status"], row["after"]["status"]) == ("worse", 203, 404)


def ask_status(sites: Sites) -> int:
    return ask(sites.port, host="shop.test").status


def test_apply_keeps_a_change_when_the_same_trouble_was_there_before(agent: AgentProcess, sites: Sites) -> None:
    agent.call("apply", sites.request(sites.shop(sites.text("shop", "down", 502)), probes=[]))
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "down too", 502))))
    assert result["outcome"] == "applied", result
    (row,) = [row for row in result["checks"] if row["kind"] == "health"]
    assert (row["verdict"], row["words"]) == ("same", "responds with 502, as before")


def test_apply_keeps_a_new_site_whose_application_is_down(agent: AgentProcess, sites: Sites) -> None:
    new = FileChange(str(sites.path("new.conf")), "put", sites.text("new", "down", 502))
    result = agent.call("apply", sites.request(new, probes=[replace(sites.probe("new"), fresh=True)]))
    assert result["outcome"] == "applied", result
    (row,) = [row for row in result["checks"] if row["kind"] == "health"]
    assert (row["verdict"], row["words"]) == ("waits", "responds with 502 (does the application behind it run?)")


def test_apply_rolls_back_a_move_whose_site_is_not_found_and_was_never_seen(agent: AgentProcess, sites: Sites) -> None:
    new = FileChange(str(sites.path("new.conf")), "put", sites.text("new", "nothing", 404))
    moved = replace(sites.probe("new"), fresh=True, required=True)
    assert agent.call("apply", sites.request(new, probes=[moved]))["outcome"] == "rolled_back"


def test_apply_accepts_what_the_new_configuration_intends(agent: AgentProcess, sites: Sites) -> None:
    change = sites.shop(sites.text("shop", "closed", 403))
    asked = replace(sites.probe("shop"), intended=(403,))
    result = agent.call("apply", sites.request(change, probes=[asked]))
    assert result["outcome"] == "applied", result


def test_apply_does_not_roll_back_its_own_site_when_told_to_deploy_anyway(agent: AgentProcess, sites: Sites) -> None:
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "sorry", 502)), anyway=True))
    assert result["outcome"] == "applied", result
    assert result["checks"][0]["verdict"] == "worse"


def test_each_of_ten_changes_is_live_when_apply_returns(agent: AgentProcess, sites: Sites) -> None:
    for number in range(10):
        agent.call("apply", sites.request(sites.shop(sites.text("shop", f"number {number}"))))
        assert [sites.body("shop") for _ in range(3)] == [f"number {number}"] * 3


def test_rejected_configuration_is_never_switched(agent: AgentProcess, strict_sites: Sites) -> None:
    sites = strict_sites
    pid = sites.server.pid
    broken = sites.text("shop", "new") + "no_such_directive on;\n"
    result = agent.call("apply", sites.request(sites.shop(broken)))
    assert result["outcome"] == "rolled_back"
    assert "no_such_directive" in result["error"]
    assert str(sites.path("shop.conf")) in result["error"], "the server names the file an admin knows"
    assert not {"switch", "reload"} & set(names(result["steps"]))
    assert sites.path("shop.conf").read_text() == sites.text("shop", "old")
    assert (sites.body("shop"), sites.body("blog"), sites.server.pid) == ("old", "blog", pid)
    assert not sites.leftovers()


def test_failing_site_is_rolled_back(agent: AgentProcess, sites: Sites) -> None:
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "sorry", 502))))
    assert result["outcome"] == "rolled_back", result
    assert "responds with 502 now and responded" in result["error"]
    assert "(does the application behind it run?)" in result["error"]
    assert names(result["steps"])[-4:] == ["probe", "undo", "reload", "prove"]
    assert (sites.body("shop"), sites.body("blog")) == ("old", "blog")
    assert not sites.leftovers()


def test_change_that_breaks_another_site_is_rolled_back(agent: AgentProcess, strict_sites: Sites) -> None:
    sites = strict_sites
    hijack = FileChange(str(sites.path("00-a.conf")), "put", sites.text("blog", "mine", 403))
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "mine")), hijack))
    assert result["outcome"] == "rolled_back", result
    assert "another site responds worse than before" in result["error"]
    assert "blog.test" in result["error"]
    assert (sites.body("shop"), sites.body("blog")) == ("old", "blog")
    assert not sites.path("00-a.conf").exists()


def test_unchanged_content_triggers_no_reload(agent: AgentProcess, sites: Sites) -> None:
    before = agent.call("service", {"engine": sites.request()["engines"][0], "action": "status"})
    request = sites.request(sites.shop(sites.text("shop", "old")))
    result = agent.call("apply", request)
    assert (result["outcome"], names(result["steps"])) == ("unchanged", ["lock", "check", "probe"])
    assert agent.call("service", {"engine": request["engines"][0], "action": "status"}) == before


def test_repeated_transaction_returns_first_outcome(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    first = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), ident="deploy-1"))
    sites.put("shop.conf", sites.text("shop", "edited"))
    events: list[dict[str, Any]] = []
    assert agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), ident="deploy-1"), events) == first
    assert set(names(events)) <= {"lock"}
    assert sites.path("shop.conf").read_text() == sites.text("shop", "edited")
    assert agent.call("status", {"transaction": "deploy-1"}) == first
    assert agent.call("status", {"transaction": "deploy-2"})["outcome"] == "unknown"


def test_many_sites_share_one_test_and_reload(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    many = [
        FileChange(str(sites.path(f"s{number}.conf")), "put", sites.text(f"s{number}", f"site {number}"), expect="")
        for number in range(60)
    ]
    probes = [sites.probe(f"s{number}") for number in range(60)]
    result = agent.call("apply", sites.request(*many, probes=probes))
    assert result["outcome"] == "applied", result["error"]
    assert [names(result["steps"]).count(name) for name in ("test", "reload")] == [1, 1]
    assert sites.body("s59") == "site 59"


def test_folders_links_and_removals_are_applied_and_undone_together(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites, root = nginx_sites, nginx_sites.server.root
    available, enabled = root / "sites-available" / "new.conf", root / "sites-enabled" / "new.conf"
    logs = root / "www" / "new" / "log"
    text = sites.text("new", "new")[:-3] + f" access_log {logs}/access.log; }}\n"
    files = [
        FileChange(str(logs), "directory", mode=0o750),
        FileChange(str(available), "put", text, expect=""),
        FileChange(str(enabled), "link", target="../sites-available/new.conf", expect=""),
        FileChange(str(sites.path("shop.conf")), "remove", expect=sha256(sites.text("shop", "old"))),
    ]
    nowhere = Probe("127.0.0.1", free_port(), "new.test", fresh=True)
    bad = sites.request(*files, probes=[sites.probe("new", "/"), nowhere])
    result = agent.call("apply", bad)
    assert result["outcome"] == "rolled_back", result
    assert not available.exists()
    assert not enabled.is_symlink()
    assert (sites.body("shop"), sites.leftovers()) == ("old", [])
    result = agent.call("apply", sites.request(*files, probes=[sites.probe("new")]))
    assert result["outcome"] == "applied", result
    assert os.readlink(enabled) == "../sites-available/new.conf"
    assert logs.stat().st_mode & 0o777 == 0o750
    assert sites.body("new") == "new"
    assert not sites.path("shop.conf").exists()


def test_edited_file_is_rejected_as_drift_by_name(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    old = sha256(sites.text("shop", "old"))
    sites.put("shop.conf", sites.text("shop", "edited by hand"))
    new = sites.text("shop", "new")
    with pytest.raises(AgentError) as refused:
        agent.call("apply", sites.request(sites.shop(new, expect=old)))
    assert refused.value.code == "drift"
    assert refused.value.detail == {
        "path": str(sites.path("shop.conf")),
        "expected": old,
        "found": sha256(sites.text("shop", "edited by hand")),
    }
    assert "edited by hand" in sites.path("shop.conf").read_text()
    with pytest.raises(AgentError, match="already exists, but no deployment created it"):
        agent.call("apply", sites.request(sites.shop(new, expect="")))
    assert agent.call("apply", sites.request(sites.shop(new, expect=None)))["outcome"] == "applied"
    # What is as it shall be already is no drift, whatever was expected.
    assert agent.call("apply", sites.request(sites.shop(new, expect=old)))["outcome"] == "unchanged"


def test_dry_run_tests_and_changes_nothing(agent: AgentProcess, strict_sites: Sites) -> None:
    sites = strict_sites
    tested = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), dry_run=True))
    assert tested["outcome"] == "tested", tested
    refused = agent.call("apply", sites.request(sites.shop("no_such_directive;\n"), dry_run=True))
    assert refused["outcome"] == "rolled_back"
    assert "no_such_directive" in refused["error"]
    assert (sites.body("shop"), sites.leftovers()) == ("old", [])


def test_stopped_web_server_is_started_and_stopped_again_on_failure(agent: AgentProcess, sites: Sites) -> None:
    sites.server.stop()
    service = {"engine": sites.request()["engines"][0], "action": "stop"}
    agent.call("service", service)
    nowhere = Probe("127.0.0.1", free_port(), "shop.test", fresh=True)
    failing = sites.request(sites.shop(sites.text("shop", "new")), guards=[], probes=[nowhere])
    assert agent.call("apply", failing)["outcome"] == "rolled_back"
    assert agent.call("service", {**service, "action": "status"})["running"] is False
    result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), guards=[]))
    assert result["outcome"] == "applied", result
    assert "start" in names(result["steps"])
    assert sites.body("shop") == "new"


def test_concurrent_transactions_run_in_sequence(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    first = agent.send("apply", sites.request(sites.shop(sites.text("shop", "first"))))
    second = agent.send("apply", sites.request(sites.shop(sites.text("shop", "second"))))
    results = {}
    while len(results) < 2:
        message = agent.receive()
        if message["type"] != "event":
            results[message["id"]] = message["data"]
    assert {results[first]["outcome"], results[second]["outcome"]} == {"applied"}
    assert sites.body("shop") in {"first", "second"}


def test_state_folder_and_backups_are_private(agent: AgentProcess, nginx_sites: Sites, tmp_path: Path) -> None:
    sites = nginx_sites
    agent.call("apply", sites.request(sites.shop(sites.text("shop", "new"))))
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    secret = FileChange(str(sites.server.root / "tls" / "shop.key"), "put", "PRIVATE KEY", mode=0o600, secret=True)
    result = agent.call("apply", sites.request(secret))
    assert result["outcome"] == "applied"
    assert Path(secret.path).stat().st_mode & 0o777 == 0o600
    journals = [path.read_text() for path in (tmp_path / "state").rglob("*.jsonl")]
    assert len(journals) == 2
    assert not [text for text in journals if "PRIVATE KEY" in text]
