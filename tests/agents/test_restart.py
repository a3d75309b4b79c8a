"""A web server starts again although its former main process is not collected yet."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import asdict
from pathlib import Path

from agents.host.engines import engine_for
from agents.protocol import EngineControl
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually


def test_apache_starts_when_its_dead_parent_process_was_not_collected_yet(server_root: Path) -> None:
    server = ApacheInstance(server_root / "apache")
    port = free_port()
    (server.root / "conf.d" / "port.conf").write_text(f"Listen {port}\nDocumentRoot {server.root}/www\n")
    argv = [server.binary, "-d", str(server.root), "-f", str(server.main_config), "-D", "FOREGROUND"]
    former = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    assert eventually(lambda: server.pid == former.pid)
    os.kill(former.pid, signal.SIGTERM)
    os.waitid(os.P_PID, former.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays in the process table
    (server.root / "run" / server.pid_name).write_text(f"{former.pid}\n")  # httpd leaves it when a reload ends it
    collecting = threading.Thread(target=lambda: (time.sleep(0.5), former.wait()))
    collecting.start()
    paths = {key: value for key, value in server.paths.items() if key != "log_dir"}
    engine = engine_for(asdict(EngineControl(engine="apache", **paths)))
    try:
        engine.start()
        assert eventually(lambda: ask(port, "/").status in (200, 403, 404))
    finally:
        collecting.join()
        engine.stop()
