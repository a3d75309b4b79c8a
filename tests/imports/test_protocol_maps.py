"""grpc_pass and uwsgi_pass of nginx become proxy locations with the protocol of their upstream."""

from __future__ import annotations

from typing import Any

import pytest

from panel.imports.mapping import mapped
from panel.imports.reading import Loader, SourceFile
from panel.imports.report import FoundSite
from panel.rendering.nginx.types import UWSGI_PARAMS
from panel.rendering.spec import WebServerSpec

HTTP = """
upstream app { server 127.0.0.1:9000; server 127.0.0.1:9001 backup; keepalive 8; }
server {
    listen 443 ssl;
    http2 on;
    server_name shop.example;
    %s
}
"""
USUAL = "\n".join(f"uwsgi_param {name} {' '.join(words)};" for name, words in UWSGI_PARAMS.items())


def imported(inside: str) -> tuple[FoundSite, dict[str, Any]]:
    """The site with the location that holds these directives, and its row."""
    web_server = WebServerSpec("nginx", "sites", "/etc/nginx", "/var/log/nginx", site_roots=("/srv/www",))
    text = HTTP % f"location / {{ {inside} }}"
    loaded = Loader("nginx", lambda _pattern: [], "/etc/nginx").load_file(SourceFile("/etc/nginx/site.conf", text))
    assert not loaded.faults
    (site,) = mapped(loaded, web_server, "/etc/nginx").sites
    (row,) = site.definition["blocks"][0]["locations"]
    return site, dict(row)


def outcome(site: FoundSite, text: str) -> str:
    return next(item.outcome for item in site.items if item.text.startswith(text))


@pytest.mark.parametrize(
    ("target", "tls", "addresses"),
    [
        ("grpc://127.0.0.1:50051", False, ["127.0.0.1:50051"]),
        ("127.0.0.1:50051", False, ["127.0.0.1:50051"]),
        ("grpcs://orders.internal", True, ["orders.internal:443"]),
        ("grpc://app", False, ["127.0.0.1:9000", "127.0.0.1:9001"]),
        ("grpc://unix:/run/orders.sock", False, ["unix:/run/orders.sock"]),
    ],
)
def test_grpc_pass_is_mapped(target: str, tls: bool, addresses: list[str]) -> None:
    site, row = imported(
        f"grpc_pass {target}; grpc_set_header X-Own $host; grpc_read_timeout 1h; grpc_send_timeout 1h;"
    )
    assert (row["handler"], row["upstream_protocol"], row["upstream_tls"]) == ("proxy", "grpc", tls)
    (upstream,) = site.definition["upstreams"]
    assert row["upstream"] == upstream["name"]
    assert [server["address"] for server in upstream["servers"]] == addresses
    assert {"name": "X-Own", "value": "$host"} in row["request_headers"]
    assert row["read_timeout_s"] == 3600 and "snippets" not in row
    assert {outcome(site, text) for text in ("grpc_pass", "grpc_set_header", "grpc_read", "grpc_send")} == {"mapped"}


@pytest.mark.parametrize("target", ["uwsgi://127.0.0.1:3031", "127.0.0.1:3031"])
def test_uwsgi_pass_is_mapped_with_its_parameters(target: str) -> None:
    site, row = imported(f"uwsgi_pass {target}; {USUAL} uwsgi_param HTTP_HOST $host; uwsgi_connect_timeout 5;")
    assert (row["handler"], row["upstream_protocol"]) == ("proxy", "uwsgi")
    assert [server["address"] for server in site.definition["upstreams"][0]["servers"]] == ["127.0.0.1:3031"]
    assert row["request_headers"] == [{"name": "Host", "value": "$host"}]
    assert row["connect_timeout_s"] == 5 and "snippets" not in row
    assert (outcome(site, "uwsgi_pass"), outcome(site, "uwsgi_param PATH_INFO")) == ("mapped", "mapped")


def test_uwsgi_parameters_that_sites_lack_stay_raw() -> None:
    site, row = imported(f"uwsgi_pass 127.0.0.1:3031; {USUAL} uwsgi_param SCRIPT_NAME /shop; uwsgi_modifier1 30;")
    assert row["upstream_protocol"] == "uwsgi"
    assert (outcome(site, "uwsgi_modifier1"), outcome(site, "uwsgi_pass")) == ("snippet", "mapped")
    assert outcome(site, "uwsgi_param SCRIPT_NAME") in ("snippet", "refused")


def test_uwsgi_pass_without_usual_parameters_is_mapped_with_a_note() -> None:
    site, row = imported("uwsgi_pass 127.0.0.1:3031; uwsgi_param PATH_INFO $document_uri;")
    assert row["upstream_protocol"] == "uwsgi"
    assert outcome(site, "uwsgi_pass") == "changed"


def test_uwsgi_cache_is_mapped() -> None:
    _site, row = imported(
        f"uwsgi_pass 127.0.0.1:3031; {USUAL} uwsgi_cache shop; uwsgi_cache_valid 200 1m; "
        "uwsgi_cache_key $request_method$host$request_uri;"
    )
    assert row["cache_times"] == [{"codes": [200], "seconds": 60}]
    assert row["cache_key"] == "$host$request_uri"


@pytest.mark.parametrize(
    "inside", ["uwsgi_pass suwsgi://127.0.0.1:3031;", "uwsgi_pass $app;", "grpc_pass grpc://$app:1;", "grpc_pass $app;"]
)
def test_targets_that_sites_lack_are_not_mapped(inside: str) -> None:
    site, row = imported(inside)
    assert row["handler"] == "static"
    assert outcome(site, inside.split()[0]) in ("snippet", "refused")
