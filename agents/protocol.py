"""What the panel and the agent say to each other: one JSON object a line, both ways, over one channel.

The dataclasses say what `args` and `data` hold; the panel builds and reads them. The agent works on the plain
dictionaries (wire.py) and checks them itself, because it trusts nobody and has to start fast.

    agent -> panel   {"v": 1, "id": "", "type": "ready", "data": Ready}       once, when it can be asked
    panel -> agent   {"v": 1, "id": "7", "op": "apply", "args": {...}}
    agent -> panel   {"v": 1, "id": "7", "type": "event",  "data": {...}}     any number of times
                     {"v": 1, "id": "7", "type": "result", "data": {...}}     or
                     {"v": 1, "id": "7", "type": "error",  "data": {"code", "message", "detail"}}

Requests on one channel may overlap; answers are told apart by their id. When the channel closes, the agent lets a
transaction that has begun come to its end (applied, or undone), cancels everything else, and exits.

Error codes: `invalid` (the request is malformed), `refused` (outside the allowed roots, a symbolic link in the way),
`drift` (`detail`: {"path", "expected", "found"}), `busy` (another transaction holds the host; try again), `missing`
(a file, program or transaction is not there), `failed` (the operating system refused), `cancelled`, `internal`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from agents.wire import MAX_LINE_BYTES, VERSION, decode, encode

__all__ = [
    "MAX_LINE_BYTES",
    "OPERATIONS",
    "VERSION",
    "ApplyRequest",
    "ApplyResult",
    "BenchRequest",
    "BenchResult",
    "EngineControl",
    "FileChange",
    "Probe",
    "StandRequest",
    "StandServer",
    "StepEvent",
    "decode",
    "encode",
    "plain",
]

OPERATIONS = (
    "hello",  # {"agent", "python", "pid", "uid", "user"}: the same as the ready message
    "facts",  # kernel, CPUs, memory, distribution, installed engines with versions, modules, paths
    "apply",  # ApplyRequest -> ApplyResult; Step events
    "recover",  # undo or finish whatever a killed agent left; -> {"transactions": [...]}
    "status",  # {"transaction": id} -> the journal's outcome of that transaction
    "rollback",  # {"transaction": id}: put back what that transaction replaced
    "drift",  # {"files": [{"path", "sha256"}], "roots"} -> {"differing": [{"path", "sha256", "content"}]}
    "service",  # {"engine": EngineControl, "action": start|stop|reload|status} -> {"running", "pid", "workers", ...}
    "read",  # {"patterns", "roots"} -> {"files": [{"path", "real", "link", "mode", "sha256", "text"}], "skipped"}
    "tail",  # {"path", "lines", "roots", "follow"} -> {"lines": [...]}; with follow, events {"lines": [...]}
    "traffic",  # {"socket", "roots", "seconds", "zones"} -> {"readings": [gallop's status, before and after]}
    "install",  # {"source", "sha256", "path", "engine"}: an uploaded program in its place, and running
    "bench",  # BenchRequest -> BenchResult; progress events
    "sample",  # {"trees": {name: sources} | "pids": [...], "seconds", "hz"} -> CPU and RSS of process trees over time
    "answers",  # {"requests": [what to ask which listener]} -> {"answers": [{"status", "sha256", "encoding", ...}]}
    "stand",  # StandRequest: private instances of the host's servers for one run; {"action": "end" | "left"}
    "application",  # {"name", "action": plan | install, "plan"} -> packages (agents/host/applications.py)
    "fingerprint",  # {} -> kernel, CPUs, governor, boot id, load tools with versions: what a measurement depends on
    "ports",  # {"count"} -> {"ports": [free ones]}
    "empty",  # {"folders", "roots"} -> {"files", "bytes"}: what servers keep of answers, thrown away
    "resolve",  # {"names"} -> {"refused"}: of those that lead where no site may lead, why
    "cancel",  # {"id": id of a running request}
)


@dataclass(frozen=True)
class FileChange:
    """One file to be: `action` put | link | remove | directory (with its parents; what exists is left as it is).

    `expect` is what must be there now, else the transaction is refused as drift: the SHA-256 of a file's bytes, or
    "link:" and the target of a symbolic link, "" for nothing, None for whatever is there (a hand edit is then
    overwritten on purpose). What already is as it shall be is never drift. With `keep_owner` the file that takes an
    old one's place belongs to the same user and group, for files of the host's own.
    """

    path: str
    action: str
    content: str = ""
    mode: int = 0o644
    target: str = ""  # for link
    expect: str | None = None
    secret: bool = False  # never echoed in events, journal listings or errors
    keep_owner: bool = False


@dataclass(frozen=True)
class EngineControl:
    """How one server on the host is tested, started, reloaded and stopped.

    `prefix` is the server root (nginx -p, Apache's ServerRoot, OpenLiteSpeed's $SERVER_ROOT), `config_root` the folder
    that its configuration lies in. Apache with an `envvars` file beside `main_config` is run by apache2ctl.
    """

    engine: str  # nginx | apache | openlitespeed | native
    binary: str
    prefix: str
    main_config: str
    config_root: str
    pid_file: str
    control: str = "direct"  # direct | systemd
    unit: str = ""


@dataclass(frozen=True)
class Probe:
    """A request that must be answered after the switch: any status below 500 unless `status` names one."""

    address: str  # where to connect: 127.0.0.1
    port: int
    host: str  # Host header and SNI
    path: str = "/"
    tls: bool = False
    status: int | None = None
    timeout_s: float = 5.0


@dataclass(frozen=True)
class ApplyRequest:
    """A transaction: all of it, or nothing. The same transaction id twice answers with the first outcome."""

    transaction: str
    roots: list[str]  # every path must lie below one of these, symbolic links resolved
    files: list[FileChange]
    engines: list[EngineControl]  # each is tested, then started or reloaded once
    probes: list[Probe] = field(default_factory=list)
    guards: list[Probe] = field(default_factory=list)  # other sites: must answer after as before
    dry_run: bool = False  # stage and test only


@dataclass(frozen=True)
class StepEvent:
    """One thing done, streamed as it begins and ends, or only as it ended, up to a tenth of a second late; the last
    ones come with the result alone, which holds them all. `name`: check, lock, journal, stage, test, switch, reload,
    probe, undo, prove."""

    name: str
    status: str  # running | succeeded | failed | skipped
    argv: list[str] = field(default_factory=list)
    exit_code: int | None = None
    output: str = ""
    started_at: float = 0.0  # Unix time
    finished_at: float = 0.0


@dataclass(frozen=True)
class ApplyResult:
    outcome: str  # applied | unchanged | tested (dry run) | rolled_back | failed
    error: str = ""  # the server's own words
    steps: list[StepEvent] = field(default_factory=list)


@dataclass(frozen=True)
class BenchRequest:
    """Run one load tool once. `target` must be one of `allowed` (the host's own listeners of managed sites)."""

    argv: list[str]
    target: str  # host:port
    allowed: list[str]
    timeout_s: float
    sample_hz: float = 5.0
    trees: dict[str, list[str]] = field(default_factory=dict)  # name -> pid files or process names to sample
    input_files: dict[str, str] = field(default_factory=dict)  # name -> content, e.g. siege's URL list
    outputs: list[str] = field(default_factory=list)  # files the tool writes, to be sent back whole
    idle_s: float = 0.0  # watch this long before and after the load too
    stand: str = ""  # the id of a stand: the target is one of its listeners, the load comes from its near side
    # The load generator that was uploaded, {"source", "sha256"}, where argv begins with it and it is not a stand's.
    program: dict[str, str] | None = None


@dataclass(frozen=True)
class BenchResult:
    exit_code: int
    stdout: str
    stderr: str
    started_at: float
    finished_at: float
    samples: dict[str, list[list[float]]] = field(default_factory=dict)  # name -> [[t_s, cpu_percent, rss_bytes]]
    cpu_s: dict[str, float] = field(default_factory=dict)  # CPU seconds used during the load, children included
    phases: list[list[Any]] = field(default_factory=list)  # [name, from_s, to_s]; name: idle, load
    outputs: dict[str, str] = field(default_factory=dict)
    latency: dict[str, Any] = field(default_factory=dict)  # agents/host/latency.py; {} without a per-request log
    stopped: str = ""  # timeout | cancelled | failed: ended by the agent
    open_files: int = 0  # the limit the tool ran with
    disk_full: bool = False  # where the tool writes: what it wrote may not be whole
    server_log: str = ""  # what the target's servers wrote to their logs since the last round of it, in a stand


@dataclass(frozen=True)
class StandServer:
    """One private instance; its files lie in the folder `name` of the stand, its configuration in `server.conf`."""

    name: str
    kind: str  # nginx | native | apache | openlitespeed | php-fpm | lsphp | mariadb
    listen: str  # address:port, or the name of a socket in its folder: it is up when that accepts connections
    binary: str = ""  # "" is the host's newest php-fpm, or its MariaDB
    children: int = 0  # of lsphp, which has no configuration of its own


@dataclass(frozen=True)
class StandRequest:
    """Set up, hold until `end` (or until the channel closes), take down. Events: {"state": "files" | "network" |
    "server" | "up", ...}; "up" has {"folder", "servers": {name: {"pid"}}, "network": what the link measured,
    "namespaces": those of the kernel that are the stand's own, "tick": when it was, by the host's clock, "boot": of
    which start of the host}. Result: {"left": what is still there, mostly nothing, "logs": {server: its last words}}.
    `left` asks the same after an agent was lost: {"namespaces", "tick", "boot"} -> {"left", "boot": that of now,
    "removed": folders that it took away}. `watch` samples {"trees", "hz"} until `watched` is asked for."""

    id: str
    files: list[dict[str, Any]]  # {"path", "text", "mode"}; /PADDOCK-STAND in a text is the stand's folder
    servers: list[StandServer]
    listeners: list[str]  # address:port, all that may be a target
    fill: list[dict[str, Any]] = field(default_factory=list)  # {"path", "bytes"}: pages of that size
    folders: list[str] = field(default_factory=list)
    network: dict[str, int] | None = None  # agents/host/link.py LIMITS; {}: as fast as it goes; None: no namespaces
    link: str = ""  # "tc netem" | "emulator"; "": the kernel's own where it has one, else the emulator
    # Of two hosts: {"role": load | servers, "address": the other's, "word", "vni", "port"} (agents/host/peers.py). The
    # load's stand has the network and no servers, the servers' stand no network.
    peer: dict[str, Any] | None = None
    programs: dict[str, dict[str, str]] = field(default_factory=dict)  # paddock-netem: {"source", "sha256"}, uploaded
    application: str = ""  # wordpress: copied, with a database in the stand, and filled (agents/host/wordpress.py)
    action: str = "start"


def plain(value: Any) -> Any:
    """A dataclass as JSON values; what is not one is handed on as it is, not copied as dataclasses.asdict does."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {name: plain(item) for name, item in value.__dict__.items()}
    return value
