"""Run one load tool once, against this host's own sites only, and record its output and CPU use.

The panel sends an argv list; no shell is involved. In each argument, `{workdir}` is replaced by the path of a private
folder for input and output files, which exists during the run.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from agents.host import commands, install, latency, load_tools, safe, targets, testbed
from agents.host.errors import Refusal, no_space
from agents.host.operations import Emit
from agents.host.sample import Sampler
from agents.host.targets import Request

MAX_OUTPUT_BYTES = 4 * 1024 * 1024
WANTED_FILES = 65536
_GRACE_S = 2.0

# wrk takes the TLS name and the Host header from its URL and connects to the resolved name. Its hook `wrk.resolve`
# redirects the connection to the listener; `done` prints values missing in the text report.
WRK_SCRIPT = """\
local host, port = os.getenv("PADDOCK_ADDRESS"), os.getenv("PADDOCK_PORT")
function wrk.resolve(_, _)
  wrk.addrs = wrk.lookup(host, port)
  for i = #wrk.addrs, 1, -1 do
    if not wrk.connect(wrk.addrs[i]) then table.remove(wrk.addrs, i) end
  end
end
local urls = io.open(os.getenv("PADDOCK_WORKDIR") .. "/urls", "r")
if urls then
  local paths = {}
  for path in urls:lines() do paths[#paths + 1] = path end
  urls:close()
  local prepared, turn = {}, 0
  function init(_)
    for i, line in ipairs(paths) do
      local method, path = line:match("^(%u+) (.+)$")
      -- A POST without content says so by Content-Length: 0 (RFC 9110, 8.6).
      prepared[i] = wrk.format(method, path or line, nil, method == "POST" and "" or nil)
    end
  end
  function request()
    turn = turn % #prepared + 1
    return prepared[turn]
  end
end
function done(summary, latency, _)
  local function us(p) return latency:percentile(p) end
  io.write(string.format("paddock requests=%d duration_us=%d bytes=%d connect=%d read=%d write=%d timeout=%d " ..
    "status=%d mean_us=%.3f max_us=%d p50_us=%d p90_us=%d p95_us=%d p99_us=%d p99.9_us=%d\\n",
    summary.requests, summary.duration, summary.bytes, summary.errors.connect, summary.errors.read,
    summary.errors.write, summary.errors.timeout, summary.errors.status, latency.mean, latency.max,
    us(50), us(90), us(95), us(99), us(99.9)))
end
"""


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Run the load tool of a BenchRequest; return a BenchResult (agents/protocol.py). Raise Refusal before the start if
    the request is not allowed.
    """
    request = Request(args)
    found_testbed = testbed.find(request.testbed) if request.testbed else None
    address, port = (
        targets.check(request, found_testbed.listeners, isolated=found_testbed.link is not None)
        if found_testbed
        else targets.check(request)
    )
    # A folder inside the test bed's folder is removed with it, even if this agent is killed.
    if found_testbed is not None:
        workdir = tempfile.mkdtemp(prefix="paddock-bench-", dir=found_testbed.folder.path)
    else:
        workdir, descriptor = safe.new_private_folder("paddock-bench-")
        os.close(descriptor)
    try:
        binary = _program(request, found_testbed, workdir)
        try:
            _write_inputs(workdir, request)
        except OSError as error:
            raise no_space(error, workdir) from None
        tool = _Tool(request, binary, workdir, address, port)
        if found_testbed is None:
            return _measure(tool, request, emit, cancelled)
        found_testbed.enter()
        sources = [source for sources in request.trees.values() for source in sources]
        result = _measure(tool, request, emit, cancelled)
        return dict(result, server_log=found_testbed.said(sources))
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _program(request: Request, found_testbed: testbed.Testbed | None, workdir: str) -> str:
    """Return the path of the load tool; raise Refusal if the tool is missing.

    The tool is a program of the host or of the test bed, or an uploaded program. An uploaded program is first copied to
    a folder where nobody else can replace it.
    """
    name = request.argv[0]
    if found_testbed is not None and name == load_tools.BUNDLED:
        return found_testbed.folder.program(name)
    if request.program is not None and name == load_tools.BUNDLED:
        path = os.path.join(workdir, "." + name)
        try:
            with install.Place(path) as place:
                place.take(place.checked_copy(request.program["source"], request.program["sha256"]))
        except OSError as error:
            raise no_space(error, workdir) from None
        return path
    found = shutil.which(name)
    if found is None:
        raise Refusal("missing", "%s is not installed on this host; install it, then run again" % name)
    safe.true_path(found)
    return found


def _write_inputs(workdir: str, request: Request) -> None:
    files = dict(request.input_files)
    if request.argv[0] == "wrk":
        files["wrk.lua"] = WRK_SCRIPT
    for name, content in files.items():
        path = os.path.join(workdir, targets.file_name(name))
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    if request.argv[0] == "siege":
        # Without a configuration file below HOME, siege creates one and prints messages.
        os.mkdir(os.path.join(workdir, ".siege"))
        shutil.copy(os.path.join(workdir, "siegerc"), os.path.join(workdir, ".siege", "siege.conf"))


def raise_file_limit() -> int:
    """Raise the limit of open files for this process and its children as far as permitted; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(hard, WANTED_FILES) if os.geteuid() == 0 else hard
    for limit in ((wanted, wanted), (hard, hard)):
        if soft >= limit[0]:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class _Tool:
    """Running load tool as a process group. Its output goes to files, because a full pipe would slow the tool down."""

    def __init__(self, request: Request, binary: str, workdir: str, address: str, port: int) -> None:
        self.workdir = workdir
        self.argv = [binary] + [part.replace("{workdir}", workdir) for part in request.argv[1:]]
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "HOME": workdir,
            "LC_ALL": "C",
            "PADDOCK_WORKDIR": workdir,
            "PADDOCK_ADDRESS": address,
            "PADDOCK_PORT": str(port),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        self.cpu_s = 0.0
        self.stopped = ""

    def start(self) -> int:
        """Start the tool and return its process id. The tool dies with the agent if the host has setpriv(1)."""
        with open(self._path("stdout"), "wb") as out, open(self._path("stderr"), "wb") as err:
            self.process = subprocess.Popen(
                commands.ending_with_agent(self.argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.workdir,
                env=self.environment,
                start_new_session=True,
            )
        return self.process.pid

    def poll(self) -> bool:
        """Return whether the tool has ended; if so, record its exit code and its CPU time, including its children."""
        assert self.process is not None
        if self.exit_code is not None:
            return True
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.exit_code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        self.process.returncode = self.exit_code
        self.cpu_s = usage.ru_utime + usage.ru_stime
        return True

    def stop(self, why: str) -> None:
        """Send SIGTERM to the tool's process group, then SIGKILL after _GRACE_S seconds; return when the tool has
        ended. `why` is stored in `stopped`.
        """
        assert self.process is not None
        self.stopped = why
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while not self.poll() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.sweep()
        while not self.poll():
            time.sleep(0.02)

    def sweep(self) -> None:
        """Kill (SIGKILL) all remaining processes of the tool's process group."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _path(self, name: str) -> str:
        return os.path.join(self.workdir, "." + name)

    def output(self, name: str) -> str:
        return read_text(self._path(name))


def read_text(path: str) -> str:
    """Return the content of a file; "" if the file does not exist. After MAX_OUTPUT_BYTES, longer content is replaced
    by a note.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_OUTPUT_BYTES + 1)
    except FileNotFoundError:
        return ""
    text = data[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    return text if len(data) <= MAX_OUTPUT_BYTES else text + "\n[cut after %d bytes]\n" % MAX_OUTPUT_BYTES


def _measure(tool: _Tool, request: Request, emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    limit = raise_file_limit()
    sampler = Sampler(request.trees, request.sample_hz)
    phases: list[list[Any]] = []
    _idle(sampler, request.idle_s, phases, cancelled)
    started_at, finished_at = _load(tool, sampler, request, phases, emit, cancelled)
    cpu_s = dict(sampler.cpu_s, tool=round(tool.cpu_s, 4))
    if not tool.stopped:
        _idle(sampler, request.idle_s, phases, cancelled)
    assert tool.exit_code is not None
    return {
        "exit_code": tool.exit_code,
        "stdout": tool.output("stdout"),
        "stderr": tool.output("stderr"),
        "started_at": started_at,
        "finished_at": finished_at,
        "samples": sampler.samples,
        "cpu_s": cpu_s,
        "phases": phases,
        "outputs": {name: read_text(os.path.join(tool.workdir, targets.file_name(name))) for name in request.outputs},
        "latency": latency.from_h2load_log(os.path.join(tool.workdir, "requests.log")),
        "stopped": tool.stopped,
        "open_files": limit,
        "disk_full": _is_full(tool.workdir),
    }


def _load(
    tool: _Tool,
    sampler: Sampler,
    request: Request,
    phases: list[list[Any]],
    emit: Emit,
    cancelled: threading.Event,
) -> tuple[float, float]:
    """Run the load tool, and return the Unix times of its start and end. Append ["load", start, end] to `phases`, in
    seconds since the start of the sampler.
    """
    if _counts_whole_seconds(tool.argv):
        # siege adds its -t to a clock in whole seconds (timer.c): started late in a second, a one-second load would
        # last a few milliseconds.
        cancelled.wait(1.0 - time.time() % 1.0)
    sampler.restart_count()
    started_at, load_from = time.time(), sampler.now()
    pid = tool.start()
    try:
        sampler.add("tool", ["pid:%d" % pid])
        _watch(tool, sampler, request.timeout_s, emit, cancelled)
    finally:
        if not tool.poll():
            tool.stop("failed")
        tool.sweep()
    finished_at, load_to = time.time(), sampler.now()
    phases.append(["load", round(load_from, 3), round(load_to, 3)])
    sampler.tick()
    return started_at, finished_at


def _counts_whole_seconds(argv: list[str]) -> bool:
    return os.path.basename(argv[0]) == "siege" and "-t" in argv


def _is_full(folder: str) -> bool:
    """Return whether this process can write no more data to the file system of a folder. Root may also use reserved
    blocks.
    """
    found = os.statvfs(folder)
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) == 0


def _idle(sampler: Sampler, seconds: float, phases: list[list[Any]], cancelled: threading.Event) -> None:
    """Sample CPU and memory for `seconds` without load, so that charts also show the values before and after the load.
    Append ["idle", start, end] to `phases`.
    """
    begin = sampler.now()
    while True:
        wait = sampler.tick()
        left = begin + seconds - sampler.now()
        if left <= 0 or cancelled.wait(min(wait, left)):
            break
    if seconds > 0:
        phases.append(["idle", round(begin, 3), round(sampler.now(), 3)])


def _watch(tool: _Tool, sampler: Sampler, timeout_s: float, emit: Emit, cancelled: threading.Event) -> None:
    begin = reported = time.monotonic()
    next_sample = begin
    while not tool.poll():
        now = time.monotonic()
        if cancelled.is_set():
            return tool.stop("cancelled")
        if now - begin > timeout_s:
            return tool.stop("timeout")
        if now >= next_sample:
            next_sample = now + sampler.tick()
        if now - reported >= 1.0:
            reported = now
            emit({"phase": "load", "elapsed_s": round(now - begin, 1), "cpu_s": dict(sampler.cpu_s)})
        # Short enough to notice the end of a short run, long enough to cost nothing.
        cancelled.wait(min(0.02, max(next_sample - now, 0.005)))
    return None
