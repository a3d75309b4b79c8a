"""The servers that other tests use start, respond, reload and stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.php import PhpFpm
from tests.support.ports import free_port
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


@pytest.mark.parametrize("kind", [NginxInstance, GallopInstance])
def test_nginx_and_gallop_serve_reload_and_stop(kind: type[NginxInstance], server_root: Path) -> None:
    server, port = kind(server_root), free_port()
    (server.root / "www" / "index.html").write_text("hello")
    (server.root / "conf.d" / "a.conf").write_text(f"server {{ listen 127.0.0.1:{port}; root {server.root}/www; }}\n")
    assert server.test().returncode == 0
    with server:
        assert ask(port).text == "hello"
        (server.root / "conf.d" / "a.conf").write_text(f"server {{ listen 127.0.0.1:{port}; return 204; }}\n")
        server.reload()
        assert eventually(lambda: ask(port).status == 204)
    assert eventually(lambda: server.pid is None)


@pytest.mark.parametrize("mpm", ["event", "worker", "prefork"])
def test_apache_serves_reloads_and_stops(mpm: str, server_root: Path) -> None:
    server, port = ApacheInstance(server_root, mpm=mpm), free_port()
    (server.root / "www" / "index.html").write_text("hello")
    config = f"Listen 127.0.0.1:{port}\n<VirtualHost *:{port}>\nDocumentRoot {server.root}/www\n</VirtualHost>\n"
    (server.root / "conf.d" / "a.conf").write_text(config)
    assert server.test().returncode == 0, server.test().stderr
    with server:
        assert eventually(lambda: ask(port).text == "hello")
        (server.root / "conf.d" / "a.conf").write_text(config + "RedirectMatch 404 ^/gone\n")
        server.reload()
        assert eventually(lambda: ask(port, "/gone").status == 404)
    assert eventually(lambda: server.pid is None)


def test_sshd_and_php_fpm_listen(server_root: Path) -> None:
    with SshServer(server_root / "ssh") as sshd, PhpFpm(server_root / "php") as php:
        assert sshd.host_key.startswith("ssh-ed25519 ")
        assert php.socket.is_socket()
