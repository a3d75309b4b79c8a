"""A uWSGI server with a WSGI application that reports what reached it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.waiting import eventually

# `times`: how often the path was requested.
APPLICATION = """\
import collections, json

NAMES = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "SERVER_PROTOCOL", "REMOTE_ADDR",
         "SERVER_PORT", "HTTP_HOST", "HTTP_X_OWN", "HTTP_X_GONE")
times = collections.Counter()

def application(environ, start_response):
    path = environ.get("PATH_INFO", "")
    times[path] += 1
    said = {name: environ[name].encode("latin-1").decode() for name in NAMES if name in environ}
    said["scheme"] = environ["wsgi.url_scheme"]
    said["body"] = len(environ["wsgi.input"].read())
    said["times"] = times[path]
    status = path.partition("/status-")[2][:3] or "200"
    start_response(f"{status} Said", [("Content-Type", "application/json"), ("X-App", "uwsgi")])
    return [json.dumps(said).encode()]
"""


class UwsgiServer:
    """On a free port of loopback, or on `socket`."""

    def __init__(self, root: Path, socket: Path | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "application.py").write_text(APPLICATION)
        self.address = f"unix:{socket}" if socket else f"127.0.0.1:{free_port()}"
        argv = [tool("uwsgi"), "--plugin", "python3", "--master", "--die-on-term", "--chdir", str(root)]
        argv += ["--socket", str(socket or self.address), "--chmod-socket=666", "--wsgi-file", "application.py"]
        self.process = ServerProcess(argv, root / "uwsgi.out")

    def __enter__(self) -> Self:
        self.process.start()
        # A socket gets its permissions after it is there.
        assert eventually(lambda: "spawned uWSGI worker 1" in self.process.said()), self.process.said()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
