"""A test bed with WordPress: nginx and PHP-FPM, which root starts, and MariaDB as the attacker's own account."""

from __future__ import annotations

from panel.benchmarks.testbeds import main_files
from tests.suites.attack.racer.outcomes import outcome_of
from tests.suites.attack.racer.world import Agent, World

NGINX = """daemon off;
user PADDOCK-USER PADDOCK-GROUP;
pid /PADDOCK-TESTBED/web/server.pid;
error_log /PADDOCK-TESTBED/web/error.log;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:21099; root /PADDOCK-TESTBED/www; } }
"""
FPM = """[global]
daemonize = no
error_log = /PADDOCK-TESTBED/php/error.log
[www]
listen = /PADDOCK-TESTBED/php/php.sock
user = PADDOCK-USER
group = PADDOCK-GROUP
pm = static
pm.max_children = 1
"""


def talk(world: World, agent: Agent) -> str:
    texts = {"web/server.conf": NGINX, "php/server.conf": FPM, **main_files.mariadb()}
    request = {
        "action": "start",
        "id": "testbed-of-the-racer",
        "files": [{"path": path, "text": text, "mode": 0o644} for path, text in texts.items()],
        "servers": [
            {"name": "mariadb", "kind": "mariadb", "listen": "mariadb.sock"},
            {"name": "php", "kind": "php-fpm", "listen": "php.sock"},
            {"name": "web", "kind": "nginx", "listen": "127.0.0.1:21099", "binary": "/usr/sbin/nginx"},
        ],
        "listeners": ["127.0.0.1:21099"],
        "folders": ["www", "web"],
        "application": "wordpress",
    }
    ident = agent.start("testbed", request)
    up = agent.wait(ident, lambda data: data.get("state") == "up")
    if up["type"] != "event":
        return outcome_of(up)
    agent.call("testbed", {"action": "end", "id": "testbed-of-the-racer"})
    return f"up {outcome_of(agent.wait(ident))}"
