"""The other operations: rollback, drift, install, service, facts and cancel; and TLS probes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agents.host import read
from agents.protocol import FileChange, Probe
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import Sites, sha256
from tests.support.ports import free_port


def test_rollback_restores_replaced_files(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    new = FileChange(str(sites.path("new.conf")), "put", sites.text("new", "new"), expect="")
    gone = FileChange(str(sites.path("gone.conf")), "remove")
    sites.put("gone.conf", sites.text("gone", "gone"))
    sites.server.reload()
    agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), new, gone, ident="deploy-1"))
    assert sites.body("shop") == "new"
    result = agent.call("rollback", {"transaction": "deploy-1"})
    assert result["outcome"] == "applied", result
    assert (sites.body("shop"), sites.body("gone")) == ("old", "gone")
    assert not sites.path("new.conf").exists()
    with pytest.raises(AgentError) as refused:
        agent.call("rollback", {"transaction": "deploy-2"})
    assert refused.value.code == "missing"


def test_rollback_keeps_later_edit(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    agent.call("apply", sites.request(sites.shop(sites.text("shop", "new")), ident="deploy-1"))
    sites.put("shop.conf", sites.text("shop", "by hand"))
    with pytest.raises(AgentError) as refused:
        agent.call("rollback", {"transaction": "deploy-1"})
    assert refused.value.code == "drift"
    assert "by hand" in sites.path("shop.conf").read_text()


def test_drift_reports_differences_and_hides_secrets(agent: AgentProcess, tmp_path: Path) -> None:
    for name in ("same", "edited", "secret", "binary"):
        (tmp_path / name).write_text("old")
    (tmp_path / "link").symlink_to("elsewhere")
    files = [
        {"path": str(tmp_path / name), "sha256": sha256("old")}
        for name in ("same", "edited", "secret", "binary", "gone")
    ]
    files[2]["secret"] = True  # type: ignore[assignment]
    files.append({"path": str(tmp_path / "link"), "sha256": "link:target"})
    (tmp_path / "edited").write_text("by hand\n")
    (tmp_path / "secret").write_text("PRIVATE")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    found = {Path(item["path"]).name: item for item in agent.call("drift", {"files": files})["files"]}
    assert set(found) == {"edited", "secret", "binary", "gone", "link"}
    assert (found["edited"]["content"], found["edited"]["sha256"]) == ("by hand\n", sha256("by hand\n"))
    assert (found["secret"]["content"], found["binary"]["content"], found["gone"]["sha256"]) == ("", "", "")
    assert found["link"]["sha256"] == "link:elsewhere"
    with pytest.raises(AgentError, match="outside the folders"):
        agent.call("drift", {"files": [{"path": "/etc/shadow", "sha256": ""}], "roots": [str(tmp_path)]})


def test_install_accepts_only_announced_digest(agent: AgentProcess, tmp_path: Path) -> None:
    source = tmp_path / "uploaded"
    source.write_text("#!/bin/sh\necho tool version: tool/1.2\n")
    args = {
        "source": str(source),
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "path": f"{tmp_path}/bin/tool",
    }
    with pytest.raises(AgentError, match="differs from the announced file"):
        agent.call("install", {**args, "sha256": "0" * 64})
    assert not list((tmp_path / "bin").iterdir())
    done = agent.call("install", args)
    assert done == {"path": args["path"], "installed": True, "version": "tool version: tool/1.2", "modules": []}
    assert Path(args["path"]).stat().st_mode & 0o777 == 0o755
    assert agent.call("install", args)["installed"] is False
    source.unlink()
    source.symlink_to("/etc/passwd")
    with pytest.raises(AgentError, match="cannot be read"):
        agent.call("install", {**args, "sha256": "0" * 64})


def test_stale_pid_file_does_not_name_unrelated_process(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites = nginx_sites
    sites.server.stop()
    pid_file = Path(sites.server.paths["pid_file"])
    stranger = subprocess.Popen(["/bin/sleep", "60"])
    try:
        pid_file.write_text(str(stranger.pid))
        service: dict[str, Any] = {"engine": sites.request()["engines"][0]}
        assert agent.call("service", {**service, "action": "status"})["running"] is False
        agent.call("service", {**service, "action": "stop"})
        with pytest.raises(AgentError, match="is not running"):
            agent.call("service", {**service, "action": "reload"})
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        pid_file.unlink(missing_ok=True)


def test_facts_name_host_and_web_servers(agent: AgentProcess) -> None:
    facts = agent.call("facts")
    assert facts["memory_bytes"] > 100 * 1024 * 1024
    assert facts["os"]["id"]
    assert "127.0.0.1" in facts["addresses"] and len(set(facts["addresses"])) == len(facts["addresses"])
    default = {item["engine"]: item for item in facts["engines"] if not item["private"]}
    assert default["nginx"]["paths"]["main_config"] == "/etc/nginx/nginx.conf"
    assert default["nginx"]["layout"] == "sites"
    assert default["apache"]["paths"]["pid_file"].endswith("apache2.pid")
    assert "core" in default["apache"]["modules"]


def test_apply_cancelled_before_switch_changes_nothing(agent_file: Path, nginx_sites: Sites, tmp_path: Path) -> None:
    sites = nginx_sites
    with AgentProcess(agent_file, tmp_path / "state", fault="wait:staged") as agent:
        ident = agent.send("apply", sites.request(sites.shop(sites.text("shop", "new"))))
        while agent.receive()["data"].get("name") != "stage":
            pass
        agent.send("cancel", {"id": ident})
        messages = [agent.receive_result(), agent.receive_result()]
        results = {message["id"]: message["data"] for message in messages}
        assert results[ident]["outcome"] == "rolled_back"
        assert "cancelled" in results[ident]["error"]
    assert (sites.body("shop"), sites.leftovers()) == ("old", [])


def test_tls_site_is_probed_by_its_name(agent: AgentProcess, nginx_sites: Sites) -> None:
    sites, port, root = nginx_sites, free_port(), nginx_sites.server.root
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.test"]
    subprocess.run(
        [*argv, "-keyout", str(root / "k.pem"), "-out", str(root / "c.pem")], check=True, capture_output=True
    )
    block = "server {{ listen 127.0.0.1:{port} ssl{extra}; server_name {name}; ssl_certificate {root}/c.pem; "
    block += "ssl_certificate_key {root}/k.pem; return {code}; }}\n"

    def text(default: int, shop: int) -> str:
        others = block.format(port=port, extra=" default_server", name="_", root=root, code=default)
        return others + block.format(port=port, extra="", name="shop.test", root=root, code=shop)

    probe = Probe("127.0.0.1", port, "shop.test", tls=True, status=204)
    result = agent.call("apply", sites.request(sites.shop(text(503, 204)), probes=[probe]))
    assert result["outcome"] == "applied", result["error"]
    # Only the site of this name gets worse; the server of all other names gets better.
    result = agent.call("apply", sites.request(sites.shop(text(204, 503)), probes=[probe]))
    assert result["outcome"] == "rolled_back"
    words = f"https://shop.test:{port}/ at 127.0.0.1 responds with 503 instead of 204 now and responded with 204 before"
    assert words in result["error"]
    other = Probe("127.0.0.1", port, "other.test", tls=True)
    result = agent.call("apply", sites.request(sites.shop(text(204, 503)), probes=[other]))
    assert result["outcome"] == "applied", result["error"]


def test_unreadable_folders_are_reported(server_root: Path) -> None:
    """Unreadable folders must not count as empty. Runs as another account, because root can read everything."""
    open_one, closed = server_root / "open", server_root / "closed"
    for folder, mode in ((open_one, 0o755), (closed, 0o700)):
        (folder / "in").mkdir(parents=True)
        (folder / "in" / ".htaccess").write_text("Options None\n")
        folder.chmod(mode)
    asked = {"patterns": [f"{server_root}/*/*/.htaccess"], "roots": [str(server_root)]}
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    else:
        closed.chmod(0o000)
    try:
        answer = read.run(asked, lambda event: None, threading.Event())
    finally:
        if is_root:
            os.seteuid(0)
        closed.chmod(0o700)
    assert [file["path"] for file in answer["files"]] == [f"{open_one}/in/.htaccess"]
    why = f"the agent's account may not read the folder {closed}"
    assert answer["skipped"] == [{"path": str(closed), "why": why}]


def test_resolve_returns_addresses_of_names_on_host(agent: AgentProcess) -> None:
    found = agent.call("resolve", {"names": ["localhost", "127.0.0.9", "nothing.invalid"]})["addresses"]
    assert "127.0.0.1" in found["localhost"] and found["127.0.0.9"] == ["127.0.0.9"] and found["nothing.invalid"] == []
    for names in ("localhost", [""], ["a" * 254], [1], ["a\nb"], ["a"] * 1001):
        with pytest.raises(AgentError, match="names is a list"):
            agent.call("resolve", {"names": names})
