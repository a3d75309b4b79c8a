"""What is asked of the agent while it is attacked: at least one case for every operation of the protocol."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.suites.attack.racer import testbed_case
from tests.suites.attack.racer.attacker import ACCOUNT
from tests.suites.attack.racer.outcomes import outcome_of
from tests.suites.attack.racer.world import Agent, World

NEW = "a = 1\n"


@dataclass
class Case:
    """`outcome` is what it comes to while nobody attacks."""

    outcome: str
    talk: Callable[[World, Agent], str]
    prepare: Callable[[World, Path], None] = lambda world, agent: None
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def end(self, world: World) -> None:
        """Ends what `prepare` started (its processes are noted in the world's file `started`)."""
        noted = world.state / "started"
        for pid in map(int, noted.read_text().split() if noted.exists() else []):
            with_pid_end(pid)


def with_pid_end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def asks(op: str, args: Callable[[World], dict[str, Any]]) -> Callable[[World, Agent], str]:
    return lambda world, agent: outcome_of(agent.call(op, args(world)))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- folders of a site ---


def site(world: World, _agent: Path) -> None:
    """Files and folders of the attacker's that an operation is asked about."""
    for name in ("conf.d/shop.conf", "conf.d/old.conf", "logs/access.log", "www/.htaccess"):
        world.file(world.site / name, f"{name}\n" * 3)
    for name in ("a", "b/c"):
        world.file(world.site / "cache" / name, "kept")
    world.file(world.site / "run" / "server.pid", f"{os.getpid()}\n")
    world.file(world.site / "upload", "#!/bin/sh\n", 0o755)
    world.give(world.site)


def changes(world: World, folder: Path) -> dict[str, Any]:
    files = [
        {"path": f"{folder}/conf.d/shop.conf", "action": "put", "content": NEW},
        {"path": f"{folder}/conf.d/new.conf", "action": "put", "content": NEW, "mode": 0o640},
        {"path": f"{folder}/conf.d/link.conf", "action": "link", "target": "shop.conf"},
        {"path": f"{folder}/conf.d/old.conf", "action": "remove"},
        {"path": f"{folder}/made/inner", "action": "directory", "mode": 0o755},
    ]
    return {"transaction": "racer", "roots": [str(folder)], "files": files, "engines": []}


def applied_before(world: World, agent: Path, fault: str = "") -> None:
    """A transaction of root's in a folder that was given to the account afterwards."""
    site(world, agent)
    for path in (world.site, *world.site.rglob("*")):
        os.chown(path, 0, 0)
    process = Agent(world, agent, fault)
    with contextlib.suppress(EOFError):
        process.call("apply", changes(world, world.site))
    process.close()
    world.give(world.site)


def tail(world: World, agent: Agent) -> str:
    args = {"path": f"{world.site}/logs/access.log", "roots": [f"{world.site}/logs"], "lines": 5}
    first = outcome_of(agent.call("tail", args))
    ident = agent.start("tail", dict(args, follow=True))
    message = agent.wait(ident, lambda data: True)
    if message["type"] == "event":
        agent.call("cancel", {"id": ident})
        message = agent.wait(ident)
    return f"{first} {outcome_of(message)}"


def requested(world: World, agent: Path) -> None:
    """An access log of the attacker's with a request that counts."""
    site(world, agent)
    line = '192.0.2.1 - - [26/Nov/2026:01:00:00 +0000] "GET /shop HTTP/1.1" 200 5 "-" "curl"\n'
    world.file(world.site / "logs" / "access.log", line * 3)
    world.give(world.site)


def preflight(world: World, agent: Agent) -> str:
    log = {"path": f"{world.site}/logs/access.log", "roots": [f"{world.site}/logs"], "most": 5}
    message = agent.call("preflight", {"logs": [log]})
    return f"{outcome_of(message)} {message['data'].get('busiest')}"


def counted(world: World) -> dict[str, Any]:
    """Responses in the access log of the attacker's site."""
    log = {"path": f"{world.site}/logs/access.log", "roots": [f"{world.site}/logs"]}
    return {"logs": [log], "ago_s": 60}


def searched(world: World) -> dict[str, Any]:
    """The lines of a day in the access log of the attacker's site."""
    log = {"path": f"{world.site}/logs/access.log", "roots": [f"{world.site}/logs"]}
    return {**log, "begin": 1_795_600_000, "end": 1_795_700_000, "text": "shop", "most": 10}


def challenged(world: World, agent: Path) -> None:
    """Challenges in folders of the attacker's and of root's; one has the name of a file in root's other folder."""
    site(world, agent)
    for folder in (world.site / "challenges", world.etc / "challenges"):
        for name in ("keep", "token"):
            world.file(folder / name, f"{name}.thumbprint")
    world.give(world.site)


def challenge_put(folder: Path) -> dict[str, Any]:
    files = {"keep": "keep.thumbprint2", "new": "new.thumbprint"}
    return {"folder": f"{folder}/challenges", "roots": [str(folder)], "files": files}


def challenge_remove(folder: Path) -> dict[str, Any]:
    return {"folder": f"{folder}/challenges", "roots": [str(folder)], "names": ["keep", "token", "none"]}


def certified(world: World, agent: Path) -> None:
    """A configuration of the attacker's that names files of his as certificates."""
    configured(world, agent)
    lines = f"include {world.site}/conf.d/*.conf; ssl_certificate ../upload; ssl_certificate ../www/.htaccess;"
    world.file(world.site / "conf" / "nginx.conf", lines)
    world.give(world.site)


def named(world: World) -> dict[str, Any]:
    asked = control(world, world.site)
    return {"engines": [{name: asked[name] for name in ("engine", "main_config", "prefix")}]}


def listening(world: World, agent: Path) -> None:
    site(world, agent)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{world.site}/run/status.sock")
    world.give(world.site)


# --- programs ---


def impostors(world: World, agent: Path) -> None:
    """Processes of the attacker's that look like servers, with configuration and programs of his."""
    site(world, agent)
    evil = f"#!/bin/sh\n[ $(id -u) = 0 ] && echo > {world.canaries.ran}/impostor\n"
    for name in ("bin/nginx", "bin/apache2", "bin/openlitespeed"):
        world.file(world.site / name).unlink()
        shutil.copy("/bin/dash", world.site / name)
        (world.site / name).chmod(0o755)
    for name in ("conf/nginx.conf", "conf/httpd.conf", "conf/httpd_config.conf"):
        world.file(world.site / name, "# his\n")
    world.give(world.site)
    pids = []
    for name, options in (("nginx", "-p {0} -c {0}/conf/nginx.conf"), ("apache2", "-d {0} -f {0}/conf/httpd.conf")):
        pids.append(impostor(world, name, options.format(world.site).split()))
    pids.append(impostor(world, "openlitespeed", []))
    # The program of a running process stays what it is; what has its name may be another by now.
    (world.site / "bin" / "openlitespeed").rename(world.site / "bin" / "running")
    world.file(world.site / "bin" / "openlitespeed", evil, 0o755)
    world.give(world.site)
    (world.state / "started").write_text(" ".join(map(str, pids)))


def impostor(world: World, name: str, options: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        reading, _writing = os.pipe()
        os.dup2(reading, 0)
        os.setgroups([])
        os.setgid(ACCOUNT.pw_gid)
        os.setuid(ACCOUNT.pw_uid)
        os.execv(f"{world.site}/bin/{name}", [name, "-s", "--", *options])
    return pid


def control(world: World, folder: Path) -> dict[str, str]:
    return {
        "engine": "nginx",
        "binary": "/usr/sbin/nginx",
        "prefix": str(folder),
        "main_config": f"{folder}/conf/nginx.conf",
        "config_root": f"{folder}/conf",
        "pid_file": f"{folder}/run/nginx.pid",
    }


def configured(world: World, agent: Path) -> None:
    """An nginx's configuration in the site's folder."""
    site(world, agent)
    lines = f"pid {world.site}/run/nginx.pid; error_log /dev/null; events {{}} http {{ access_log off; }}\n"
    world.file(world.site / "conf" / "nginx.conf", lines)
    world.give(world.site)


def programs(world: World, agent: Path) -> None:
    """An upload in a folder of the login's, which is the attacker here, for a place of root's."""
    site(world, agent)
    (world.opt / "bin").mkdir()


def install(world: World, agent: Agent) -> str:
    args = {"source": f"{world.site}/upload", "sha256": digest("#!/bin/sh\n")}
    first = outcome_of(agent.call("install", dict(args, path=f"{world.opt}/bin/gallop")))
    return f"{first} {outcome_of(agent.call('install', dict(args, path=f'{world.site}/bin/gallop')))}"


def bench(world: World, agent: Agent) -> str:
    argv = ["ab", "-n", "1", "http://127.0.0.1:9/"]
    args = {"argv": argv, "target": "127.0.0.1:9", "allowed": ["127.0.0.1:9"], "timeout_s": 20, "trees": {}}
    return outcome_of(agent.call("bench", args))


def answers(world: World) -> dict[str, Any]:
    asked = {"address": "127.0.0.1", "port": 9, "host": "a.example", "host_header": "a.example", "path": "/"}
    return {"requests": [dict(asked, tls=False, gzip=False)]}


def content(folder: Path, action: str) -> dict[str, Any]:
    return {"action": action, "folder": str(folder), "roots": [str(folder.parent.parent)], "own": {}}


def observed(world: World) -> dict[str, Any]:
    return {"probes": [{"address": "127.0.0.1", "port": 9, "host": "a.example", "timeout_s": 1.0}]}


def remnants(world: World, _agent: Path) -> None:
    """Folders of the attacker's that are named like those of test beds of lost agents."""
    for name in ("paddock-testbed-one", "paddock-testbed-two"):
        world.file(Path(world.env["TMPDIR"]) / name / ".lock")
        world.give(Path(world.env["TMPDIR"]) / name)


CASES: dict[str, list[Case]] = {
    "hello": [Case("result", asks("hello", lambda world: {}))],
    "facts": [Case("result", asks("facts", lambda world: {}), impostors)],
    "resources": [Case("result", asks("resources", lambda world: {}))],
    "apply": [
        Case("refused", asks("apply", lambda world: changes(world, world.site)), site),
        Case("applied", asks("apply", lambda world: changes(world, world.etc))),
    ],
    "recover": [
        Case(
            "result",
            asks("recover", lambda world: {}),
            lambda world, agent: applied_before(world, agent, "kill:switched"),
        )
    ],
    "status": [Case("applied", asks("status", lambda world: {"transaction": "racer"}), applied_before)],
    "rollback": [Case("refused", asks("rollback", lambda world: {"transaction": "racer"}), applied_before)],
    "drift": [
        Case(
            "result",
            asks(
                "drift",
                lambda world: {
                    "files": [
                        {"path": f"{world.site}/conf.d/shop.conf", "sha256": ""},
                        {"path": f"{world.site}/conf.d/none.conf", "sha256": ""},
                    ],
                    "roots": [str(world.site)],
                },
            ),
            site,
        )
    ],
    "service": [
        Case(
            "refused",
            asks("service", lambda world: {"engine": control(world, world.site), "action": "start"}),
            configured,
        ),
        Case(
            "result",
            asks("service", lambda world: {"engine": control(world, world.site), "action": "status"}),
            configured,
        ),
    ],
    "read": [
        Case(
            "result",
            asks(
                "read",
                lambda world: {
                    "patterns": [f"{world.site}/conf.d/*.conf", f"{world.site}/www", f"{world.site}/www/.htaccess"],
                    "roots": [str(world.site)],
                },
            ),
            site,
        )
    ],
    "resolve": [Case("result", asks("resolve", lambda world: {"names": ["localhost", "nothing.invalid"]}))],
    "tail": [Case("result result", tail, site)],
    "traffic": [
        Case(
            "failed",
            asks("traffic", lambda world: {"socket": f"{world.site}/run/status.sock", "roots": [str(world.site)]}),
            listening,
        )
    ],
    "install": [Case("result refused", install, programs)],
    "bench": [Case("result", bench)],
    "sample": [
        Case(
            "result",
            asks("sample", lambda world: {"trees": {"a": [f"{world.site}/run/server.pid"]}, "seconds": 0.1}),
            site,
        )
    ],
    "observe": [Case("result", asks("observe", observed))],
    "preflight": [Case("result [['/shop']]", preflight, requested)],
    "log_period": [Case("result", asks("log_period", searched), requested)],
    "log_counts": [Case("result", asks("log_counts", counted), requested)],
    "answers": [Case("result", asks("answers", answers))],
    "testbed": [
        Case("result", asks("testbed", lambda world: {"action": "left"}), remnants),
        Case("up result", testbed_case.talk),
    ],
    "application": [Case("result", asks("application", lambda world: {"name": "wordpress", "action": "plan"}))],
    "fingerprint": [Case("result", asks("fingerprint", lambda world: {}))],
    "ports": [Case("result", asks("ports", lambda world: {"count": 2}))],
    "empty": [
        Case(
            "result",
            asks("empty", lambda world: {"folders": [f"{world.site}/cache"], "roots": [str(world.site)]}),
            site,
        )
    ],
    "content": [
        Case("refused", asks("content", lambda world: content(world.site / "www", "look")), site),
        Case("result", asks("content", lambda world: content(world.etc / "www", "look")), challenged),
    ],
    "challenge_put": [
        Case("refused", asks("challenge_put", lambda world: challenge_put(world.site)), challenged),
        Case("refused", asks("challenge_put", lambda world: challenge_put(world.site / "made")), challenged),
        Case("result", asks("challenge_put", lambda world: challenge_put(world.etc)), challenged),
    ],
    "challenge_remove": [
        Case("result", asks("challenge_remove", lambda world: challenge_remove(world.site)), challenged),
        Case("result", asks("challenge_remove", lambda world: challenge_remove(world.etc)), challenged),
    ],
    "certificates": [Case("result", asks("certificates", named), certified)],
    "keepalived": [Case("result", asks("keepalived", lambda world: {"action": "look", "checks": [], "unused": []}))],
    "fpm": [Case("result", asks("fpm", lambda world: {"action": "look", "pools": [], "accounts": True}))],
    "cancel": [Case("result", asks("cancel", lambda world: {"id": "9"}))],
}
