"""Protocol between panel and agent: one JSON object per line, both ways, over one channel.

The dataclasses define `args` and `data`; the panel builds and parses them. The agent uses plain dictionaries (wire.py)
and checks them itself, because it trusts no input and must start fast.

    agent -> panel   {"v": 1, "id": "", "type": "ready", "data": Ready}       once, when it accepts requests
    panel -> agent   {"v": 1, "id": "7", "op": "apply", "args": {...}}
    agent -> panel   {"v": 1, "id": "7", "type": "event",  "data": {...}}     any number of times
                     {"v": 1, "id": "7", "type": "result", "data": {...}}     or
                     {"v": 1, "id": "7", "type": "error",  "data": {"code", "message", "detail"}}

Requests on one channel may overlap; responses carry their id. When the channel closes, the agent lets a running
transaction end (applied or rolled back), cancels everything else, and exits.

Error codes: `invalid` (the request is malformed), `refused` (outside the allowed roots, a symbolic link in the way),
`drift` (`detail`: {"path", "expected", "found"}), `busy` (another transaction holds the host; try again), `missing` (a
file, program or transaction does not exist), `failed` (the operating system refused), `cancelled`, `internal`.
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
    "StepEvent",
    "TestbedRequest",
    "TestbedServer",
    "decode",
    "encode",
    "plain",
]

OPERATIONS = (
    "hello",  # {"agent", "python", "pid", "uid", "user"}: the same as the ready message
    "facts",  # kernel, CPUs, memory, distribution, installed engines with versions, modules, paths
    "resources",  # processor, memory, file systems, clock, open files, pending reboot (agents/host/resources.py)
    "apply",  # ApplyRequest -> ApplyResult; Step events
    "recover",  # finish or undo a killed agent's transaction; -> {"transactions": [...]}
    "status",  # {"transaction": id, "abandon"} -> its recorded outcome; abandoned, it will never begin
    "rollback",  # {"transaction": id}: restore the files that it replaced
    "drift",  # {"files": [{"path", "sha256"}], "roots"} -> {"files": [{"path", "sha256", "content"}]}: edited
    "service",  # {"engine": EngineControl, "action": start|stop|reload|status} -> {"running", "pid", "workers", ...}
    "read",  # {"patterns", "roots"} -> {"files": [{"path", "real", "link", "mode", "sha256", "text"}], "skipped"}
    "tail",  # {"path", "lines", "roots", "follow"} -> {"lines": [...]}; with follow, events {"lines": [...]}
    "traffic",  # {"socket", "roots", "seconds", "zones"} -> {"readings": [gallop's status, before and after]}
    "install",  # {"source", "sha256", "path", "engine"}: install an uploaded program and run it
    "bench",  # BenchRequest -> BenchResult; progress events
    "sample",  # {"trees": {name: sources} | "pids": [...], "seconds", "hz"} -> CPU and RSS of process trees over time
    "observe",  # {"probes": [Probe]} -> {"rows": [observation]}: asked, nothing changed (agents/host/probe.py)
    "preflight",  # {"logs": [{"path", "roots", "most"}], "needs"} -> {"busiest": [[path]], "missing"}: facts for a plan
    "log_counts",  # {"logs": [{"path", "roots"}], "ago_s"} -> {"counts": [{"before", "after"}]}: access logs
    "log_period",  # {"path", "roots", "begin", "end", "text", "most"}: search; requests by hour (host/log_period.py)
    "answers",  # {"requests": [what to ask which listener]} -> {"answers": [{"status", "sha256", "encoding", ...}]}
    "testbed",  # TestbedRequest: private instances of the host's servers for one run; {"action": "end" | "left"}
    "application",  # {"name", "action": plan | install, "plan"} -> packages (agents/host/applications.py)
    "fingerprint",  # {} -> kernel, CPUs, governor, boot id, load tools with versions: the conditions of a measurement
    "ports",  # {"count"} -> {"ports": [free ports]}
    "empty",  # {"folders", "roots"} -> {"files", "bytes"}: purge caches
    "content",  # {"action": stage | look | switch | return | tidy, "folder", "roots"}: publish (agents/host/content.py)
    "challenge_put",  # {"folder", "roots", "files": {name: content}} -> {"files"}: files of ACME challenges
    "challenge_remove",  # {"folder", "roots", "names"} -> {"files"}
    "keepalived",  # {"action": look | test | put, "text", "expected"}: virtual addresses (agents/host/keepalived.py)
    "fpm",  # {"action": look | test | put | remove, "version", "name", "text"}: PHP-FPM pools (agents/host/fpm.py)
    "certificates",  # {"engines": [{"engine", "main_config", "prefix"}]} -> {"certificates", "skipped", "is_complete"}
    "resolve",  # {"names"} -> {"addresses", "refused"}: addresses of names, and forbidden ones with the reason
    "cancel",  # {"id": id of a running request}
)


@dataclass(frozen=True)
class FileChange:
    """Change of one path: `action` put | link | remove | directory (created with its parents, if missing).

    `expect` is the required current state: the SHA-256 of a file's bytes, "link:" and the target of a symbolic link, ""
    for nothing, or None for any state (this deliberately overwrites an edit). In any other state, the agent refuses the
    transaction as drift, except if the file is already in the wanted state. With `keep_owner`, the new file has the
    user and group of the old file. This is for files that belong to the host, such as a main file.
    """

    path: str
    action: str
    content: str = field(default="", repr=False)  # may be a private key
    mode: int = 0o644
    target: str = ""  # for action link
    expect: str | None = None
    secret: bool = False  # never echoed in events, journal listings or errors
    keep_owner: bool = False
    if_absent: bool = False  # nothing is changed if the path exists, whatever it is


@dataclass(frozen=True)
class EngineControl:
    """Data to test, start, reload and stop one server of the host.

    `prefix` is the server root (nginx -p, Apache's ServerRoot, OpenLiteSpeed's $SERVER_ROOT), `config_root` the folder
    of its configuration. Apache with an `envvars` file next to `main_config` is run by apache2ctl.
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
    """A request that the agent sends before and after a change; the two responses are compared
    (agents/host/verdict.py).

    `kind`: health (a site's health page) | location (one URL of a location) | address (from the access log) | takeover
    (of a site that the change adopts) | other (another site). `was`: [address, port] before the change, if different.
    `fresh`: no server handled this request before. `seen`: observation before, from another host. `status` and `text`
    are expected in the response, `headers` are sent. `intended`: statuses that the new configuration sets on purpose,
    which never count as worse. `new`: the location is new, so its application may not run yet. `required`: a bad
    response undoes the change even if there is no observation before. `exact`: the status must not change. `stream` is
    "tcp_denied" if the access rules refuse clients on the host, or if the web server waits for data of the client; then
    only the connection is judged.
    """

    address: str  # address to connect to: 127.0.0.1
    port: int
    host: str  # Host header and SNI
    path: str = "/"
    tls: bool = False
    status: int | None = None
    timeout_s: float = 5.0
    site: str = ""
    kind: str = "health"
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()  # of the site: a redirect to one of them does not leave it
    intended: tuple[int, ...] = ()
    certificate: str = ""  # SHA-256 of the one that is deployed
    http2: bool = False
    was: tuple[str | int, ...] = ()
    fresh: bool = False
    new: bool = False
    required: bool = False
    exact: bool = False
    stream: str = ""  # tcp | tcp_denied | udp: a port of the stream block, to which no HTTP request is sent
    seen: dict[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class ApplyRequest:
    """Request for a transaction: all of its changes are applied, or none. If a transaction with the same id has ended,
    the agent changes nothing and returns its result again.
    """

    transaction: str
    roots: list[str]  # every path must be below one of these, with symbolic links resolved
    files: list[FileChange]
    engines: list[EngineControl]  # each is tested, then started or reloaded once
    probes: list[Probe] = field(default_factory=list)
    guards: list[Probe] = field(default_factory=list)  # other sites: must not answer worse than before
    anyway: bool = False  # its own sites may answer worse than before, other sites may not
    ports: list[tuple[str, int]] = field(default_factory=list)  # (address, port): held by `engines`, or free
    dry_run: bool = False  # stage and test only


@dataclass(frozen=True)
class StepEvent:
    """One step of a transaction, as the agent reports it.

    `name`: check, lock, journal, stage, test, switch, reload, start, stop, probe, undo, prove. Events are sent up to
    0.4 seconds late. If a step ends within this time, only the event at its end is sent. The last steps are not sent as
    events; ApplyResult contains all steps.
    """

    name: str
    status: str  # running | succeeded | failed | skipped
    argv: list[str] = field(default_factory=list)
    exit_code: int | None = None
    output: str = ""
    started_at: float = 0.0  # Unix time
    finished_at: float = 0.0


@dataclass(frozen=True)
class ApplyResult:
    outcome: str  # applied | unchanged | tested (dry run) | rolled_back | failed | abandoned
    error: str = ""  # the server's own message
    steps: list[StepEvent] = field(default_factory=list)
    # {"site", "kind", "url", "at", "verdict", "words", "before", "after"} (agents/host/checking.py)
    checks: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BenchRequest:
    """Request to run one load tool once. `target` must be in `allowed`, the addresses and ports of managed sites."""

    argv: list[str]
    target: str  # host:port
    allowed: list[str]
    timeout_s: float
    sample_hz: float = 5.0
    trees: dict[str, list[str]] = field(default_factory=dict)  # name -> pid files or process names
    input_files: dict[str, str] = field(default_factory=dict)  # name -> content, e.g. siege's URL list
    outputs: list[str] = field(default_factory=list)  # files written by the tool, returned completely
    idle_s: float = 0.0  # also sample this long before and after the load
    testbed: str = ""  # id of a test bed: the target is one of its listeners, the load comes from its near side
    # The uploaded load generator, {"source", "sha256"}, if argv begins with it and it does not belong to a test bed.
    program: dict[str, str] | None = None


@dataclass(frozen=True)
class BenchResult:
    exit_code: int
    stdout: str
    stderr: str
    started_at: float
    finished_at: float
    samples: dict[str, list[list[float]]] = field(default_factory=dict)  # name -> [[t_s, cpu_percent, rss_bytes]]
    cpu_s: dict[str, float] = field(default_factory=dict)  # CPU seconds during the load, including children
    phases: list[list[Any]] = field(default_factory=list)  # [name, from_s, to_s]; name: idle, load
    outputs: dict[str, str] = field(default_factory=dict)
    latency: dict[str, Any] = field(default_factory=dict)  # agents/host/latency.py; {} without a per-request log
    stopped: str = ""  # timeout | cancelled | failed: ended by the agent
    open_files: int = 0  # the tool's limit of open files
    disk_full: bool = False  # the tool's disk was full, so its output may be incomplete
    server_log: str = ""  # new log lines of the target's servers since its last round, in a test bed


@dataclass(frozen=True)
class TestbedServer:
    """One private server of a test bed. Its files are in the folder `name` of the test bed; its configuration there is
    the file `server.conf`.
    """

    name: str
    kind: str  # nginx | native | apache | openlitespeed | php-fpm | lsphp | mariadb
    listen: str  # address:port, or the name of a socket in its folder; the server is up once it accepts connections
    binary: str = ""  # "": the host's newest php-fpm, or its MariaDB
    children: int = 0  # for lsphp, which has no configuration


@dataclass(frozen=True)
class TestbedRequest:
    """Request to start a test bed, keep it until the action `end` is requested or the channel closes, and stop it.

    Events: {"state": "files" | "network" | "server" | "up", ...}; "up" has {"folder", "servers": {name: {"pid"}},
    "network": the link's measurements, "namespaces": the test bed's kernel namespaces, "tick": the time at which it was
    up, in clock ticks since the host's boot, "boot": the host's boot}. Result: {"left": parts that could not be
    removed, usually none, "logs": {server: last output}}.

    The action `left` reports on a test bed whose agent died: {"namespaces", "tick", "boot"} -> {"left", "boot": the
    current one, "removed": deleted folders}. `watch` samples {"trees", "hz"} until `watched` is requested.
    """

    id: str
    files: list[dict[str, Any]]  # {"path", "text", "mode"}; /PADDOCK-TESTBED in a text is the test bed's folder
    servers: list[TestbedServer]
    listeners: list[str]  # address:port of all possible targets
    fill: list[dict[str, Any]] = field(default_factory=list)  # {"path", "bytes"}: pages of that size
    folders: list[str] = field(default_factory=list)
    network: dict[str, int] | None = None  # agents/host/link.py LIMITS; {}: unlimited speed; None: no namespaces
    link: str = ""  # "tc netem" | "emulator"; "": the kernel's if supported, else the emulator
    # For two hosts: {"role": load | servers, "address": the other's, "word", "vni", "port"} (agents/host/peers.py). The
    # load's test bed has the network and no servers, the servers' test bed no network.
    peer: dict[str, Any] | None = None
    programs: dict[str, dict[str, str]] = field(default_factory=dict)  # paddock-netem: {"source", "sha256"}, uploaded
    application: str = ""  # wordpress: copied, with a database in the test bed, and filled (agents/host/wordpress.py)
    action: str = "start"


def plain(value: Any) -> Any:
    """Convert a dataclass, or a list that contains dataclasses, to JSON values. Other values are returned unchanged;
    they are not copied, as dataclasses.asdict would do.
    """
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {name: plain(item) for name, item in value.__dict__.items()}
    return value
