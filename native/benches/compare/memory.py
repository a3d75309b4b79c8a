"""Cases about memory and time to start: many requests, idle connections, many server blocks."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

from compare import system
from compare.load import http3
from compare.servers import Server, wait_for

IDLE_CONNECTIONS = 10_000
BLOCKS = 10_000
MILLION = 1_000_000


def million(server: Server) -> dict[str, float]:
    """Peak resident bytes during a million HTTP/3 requests."""
    system.reset_peak(server.pid)
    load = http3(f"https://127.0.0.1:{server.place.tls}/small.html", requests=MILLION, streams=10)
    if load.failed:
        raise RuntimeError(f"{load.failed} of a million requests failed")
    return {"peak_rss": system.peak_rss(server.pid)}


def idle(server: Server) -> dict[str, float]:
    """Bytes that ten thousand keep-alive connections hold after a request on each."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = system.memory(server.pid)
    request = b"GET /small.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connections = []
    try:
        for n in range(IDLE_CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", server.place.plain), 10)
            connections.append(connection)
            connection.sendall(request)
            if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{server.name}: connection {n} got no answer")
        time.sleep(0.5)
        return {"idle": system.memory(server.pid) - before}
    finally:
        for connection in connections:
            connection.close()


def blocks(count: int, root: Path) -> str:
    """Server blocks as a hosting machine has them."""
    return "\n".join(
        f"server {{ listen 127.0.0.1:%PORT%; server_name site{n}.example www.site{n}.example; root {root};"
        f" location / {{ try_files $uri $uri/ =404; }} location ~ \\.php$ {{ return 403; }}"
        f" location = /mark {{ return 200 %MARK%; }} }}"
        for n in range(count)
    )


def _mark(server: Server) -> str:
    client = http.client.HTTPConnection("127.0.0.1", server.place.plain, timeout=5)
    try:
        client.request("GET", "/mark", headers={"Host": f"site{BLOCKS - 1}.example"})
        return client.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        client.close()


def many_blocks(server: Server) -> dict[str, float]:
    """Seconds to test, start and reload ten thousand server blocks, and the bytes they take."""
    conf = Path(server.argv[server.argv.index("-c") + 1])
    text = conf.read_text()
    text = text.replace("http {", "http { server_names_hash_max_size 65536; server_names_hash_bucket_size 128;", 1)
    text = text.replace("\n    \n}", "\n" + blocks(BLOCKS, server.place.root) + "\n}")
    text = text.replace("%PORT%", str(server.place.plain))

    def write(mark: int) -> None:
        conf.write_text(text.replace("%MARK%", str(mark)))

    write(1)
    began = time.monotonic()
    subprocess.run([*server.argv, "-t"], check=True, capture_output=True)
    tested = time.monotonic() - began
    began = time.monotonic()
    server.start(wait=False)
    wait_for(server.place.plain, server)
    while _mark(server) != "1":
        time.sleep(0.002)
    started = time.monotonic() - began
    memory = system.memory(server.pid)
    write(2)
    began = time.monotonic()
    os.kill(server.pid, signal.SIGHUP)
    deadline = began + 60
    while _mark(server) != "2":
        if time.monotonic() > deadline:
            raise RuntimeError(f"{server.name} does not take its new configuration:\n{server.said()}")
        time.sleep(0.002)
    return {"test": tested, "start": started, "reload": time.monotonic() - began, "memory": memory}
