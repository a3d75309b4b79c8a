"""Records what the real load tools print: `python -m tests.benchmarks.tool_recorder`. Review the difference like code.

Starts a private nginx, runs every case of CASES through the agent's own code and writes tests/benchmarks/data/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from agents.host import bench
from panel.benchmarks.choices import Tool
from panel.benchmarks.tools import arguments, commands
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

DATA = Path(__file__).parent / "data"
FAST = {"concurrency": 4, "duration_s": 1}
# name -> tool, arguments, paths; "refused" is aimed at a port nothing listens on.
CASES: dict[str, tuple[Tool, dict[str, Any], list[str]]] = {
    "ab-keepalive": (Tool.AB, {"concurrency": 4, "requests": 5000}, ["/"]),
    "ab-seconds-new-connections": (Tool.AB, {**FAST, "keepalive": False}, ["/"]),
    "ab-tls": (Tool.AB, {"concurrency": 2, "requests": 200, "tls": True}, ["/"]),
    "ab-missing": (Tool.AB, {"concurrency": 2, "requests": 50}, ["/missing"]),
    "ab-dropped": (Tool.AB, {"concurrency": 2, "requests": 50}, ["/drop"]),
    "ab-varying-length": (Tool.AB, {"concurrency": 2, "requests": 50}, ["/varying"]),
    "ab-refused": (Tool.AB, {"concurrency": 2, "requests": 50}, ["/"]),
    "h2load-h1": (Tool.H2LOAD, {**FAST, "protocol": "h1"}, ["/"]),
    "h2load-h2": (Tool.H2LOAD, {"concurrency": 2, "requests": 500, "streams": 8, "protocol": "h2", "tls": True}, ["/"]),
    "h2load-h2-closed-early": (Tool.H2LOAD, {**FAST, "streams": 8, "protocol": "h2", "tls": True}, ["/", "/large"]),
    "h2load-missing": (Tool.H2LOAD, {"concurrency": 2, "requests": 50, "protocol": "h1"}, ["/missing"]),
    "h2load-dropped": (Tool.H2LOAD, {"concurrency": 2, "requests": 50, "protocol": "h1"}, ["/drop"]),
    "h2load-refused": (Tool.H2LOAD, {"concurrency": 2, "requests": 50, "protocol": "h1"}, ["/"]),
    "wrk-keepalive": (Tool.WRK, FAST, ["/"]),
    "wrk-two-paths-tls": (Tool.WRK, {**FAST, "tls": True}, ["/", "/large"]),
    "wrk-missing": (Tool.WRK, FAST, ["/missing"]),
    "wrk-dropped": (Tool.WRK, FAST, ["/drop"]),
    "wrk-refused": (Tool.WRK, FAST, ["/"]),
    "siege-seconds": (Tool.SIEGE, {"concurrency": 4, "duration_s": 2}, ["/", "/large"]),
    "siege-new-connections": (Tool.SIEGE, {"concurrency": 4, "requests": 2000, "keepalive": False}, ["/"]),
    "siege-slow": (Tool.SIEGE, {"concurrency": 4, "requests": 4}, ["/slow"]),
    "siege-missing": (Tool.SIEGE, {"concurrency": 4, "requests": 80}, ["/missing"]),
    "siege-dropped": (Tool.SIEGE, {"concurrency": 4, "requests": 80}, ["/drop"]),
    "siege-refused": (Tool.SIEGE, {"concurrency": 4, "requests": 80}, ["/"]),
    "hey-keepalive": (Tool.HEY, {"concurrency": 4, "requests": 4000}, ["/"]),
    "hey-seconds-new-connections": (Tool.HEY, {**FAST, "keepalive": False}, ["/"]),
    "hey-tls": (Tool.HEY, {"concurrency": 2, "requests": 200, "tls": True, "gzip": True}, ["/"]),
    "hey-few": (Tool.HEY, {"concurrency": 2, "requests": 4}, ["/slow"]),
    "hey-missing": (Tool.HEY, {"concurrency": 2, "requests": 50}, ["/missing"]),
    "hey-dropped": (Tool.HEY, {"concurrency": 2, "requests": 50}, ["/drop"]),
    "hey-refused": (Tool.HEY, {"concurrency": 2, "requests": 50}, ["/a%20b%20"]),
}

SITE = """
map $connection_requests $varying {{ ~[02468]$ even; default odd-one; }}
server {{ listen 127.0.0.1:{port}; return 421; }}
server {{ listen 127.0.0.1:{tls_port} ssl http2 default_server; return 421;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; }}
server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{tls_port} ssl http2; server_name a.example; root {root}/www;
    access_log off; ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
    location = /missing {{ return 404; }}
    location = /drop {{ return 444; }}
    location = /varying {{ return 200 $varying; }}
    location = /large {{ try_files /large.txt =404; }}
    location = /slow {{ limit_rate 4k; limit_rate_after 1k; try_files /slow.txt =404; }}
}}
"""


def start(root: Path, port: int, tls_port: int) -> NginxInstance:
    nginx = NginxInstance(root)
    subject = ["-subj", "/CN=a.example", "-addext", "subjectAltName=DNS:a.example"]
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(root / "key.pem"), "-out", str(root / "cert.pem"), "-days", "2"]
    subprocess.run([*openssl, *files, *subject], check=True, capture_output=True)
    for name, size in (("index.html", 100), ("large.txt", 27_000), ("slow.txt", 7000)):
        (root / "www" / name).write_text("x" * size)
    (root / "conf.d" / "site.conf").write_text(SITE.format(root=root, port=port, tls_port=tls_port))
    return nginx.start()


def record(name: str, port: int, tls_port: int) -> None:
    tool, raw, paths = CASES[name]
    cleaned = arguments.clean(tool, raw)
    if name.endswith("-refused"):
        port = free_port()
    endpoint = commands.Endpoint("127.0.0.1", tls_port if cleaned["tls"] else port, "a.example", bool(cleaned["tls"]))
    built = commands.command(tool, cleaned, arguments.clean_paths(tool, paths), endpoint)
    request = {"argv": built.argv, "target": endpoint.target, "allowed": [endpoint.target], "timeout_s": 20}
    more = {"trees": {}, "input_files": built.input_files, "outputs": built.outputs}
    result = bench.run({**request, **more}, lambda event: None, threading.Event())
    kept = {key: result[key] for key in ("exit_code", "stdout", "stderr", "outputs", "latency", "stopped")}
    kept["argv"] = built.argv
    (DATA / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    sys.stdout.write(f"{name}: exit code {result['exit_code']}\n")


def main() -> None:
    names = sys.argv[1:] or list(CASES)
    with tempfile.TemporaryDirectory(prefix="pd-record-") as folder:
        root, port, tls_port = Path(folder), free_port(), free_port()
        root.chmod(0o755)
        nginx = start(root, port, tls_port)
        try:
            for name in names:
                record(name, port, tls_port)
        finally:
            nginx.stop()


if __name__ == "__main__":
    main()
