"""Default servers of the host's own files are found at the paths of each distribution."""

from __future__ import annotations

from pathlib import Path

from agents.host.defaults import default_servers

DEBIAN = """\
# server { listen 9999 default_server; }
server {
\tlisten 80 default_server;
\tlisten [::]:80 default_server;

\t# listen 443 ssl default_server;
\tserver_name _;
}
"""
MANAGED = "# Site shop, managed by Paddock: change it there, edits made here are overwritten.\n"


def test_default_servers_are_read_from_host_files_only(tmp_path: Path) -> None:
    main = tmp_path / "nginx.conf"
    main.write_text("http { server { listen 192.0.2.7:8080 default; } include sites-enabled/*; }")
    for folder in ("conf.d", "sites-enabled"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sites-enabled" / "default").write_text(DEBIAN)
    (tmp_path / "sites-enabled" / "shop.conf").write_text(MANAGED + "server { listen 81 default_server; }")
    (tmp_path / "conf.d" / "api.conf").write_text("server {listen 82 ssl default_server reuseport;listen 83;}")
    (tmp_path / "conf.d" / "off.conf.disabled").write_text("server { listen 84 default_server; }")
    engines = [{"engine": "nginx", "paths": {"main_config": str(main)}}]
    found = default_servers(engines)
    assert [item["listen"] for item in found] == ["192.0.2.7:8080", "82", "80", "[::]:80"]
    assert {item["main_config"] for item in found} == {str(main)}
    assert found[1]["path"] == str(tmp_path / "conf.d" / "api.conf")


def test_apache_default_server_is_the_first_before_panel_sites(tmp_path: Path) -> None:
    main = tmp_path / "apache2.conf"
    main.write_text("IncludeOptional sites-enabled/*.conf\n")
    (tmp_path / "sites-enabled").mkdir()
    first = "<VirtualHost *:80 192.0.2.7:8080>\n  # <VirtualHost *:81>\n</VirtualHost>\n  <virtualhost _default_:443>\n"
    (tmp_path / "sites-enabled" / "000-default.conf").write_text(first + "<VirtualHost *>\n<VirtualHost *:${PORT}>\n")
    (tmp_path / "sites-enabled" / "00-shop.conf").write_text(MANAGED + "<VirtualHost *:82>\n</VirtualHost>\n")
    (tmp_path / "sites-enabled" / "zzz-last.conf").write_text("<VirtualHost *:83>\n</VirtualHost>\n")
    found = default_servers([{"engine": "apache", "paths": {"main_config": str(main)}}])
    assert [item["listen"] for item in found] == ["80", "[::]:80", "192.0.2.7:8080", "443", "[::]:443"]
