"""Create the panel's rows for a truth run: `python -m tests.suites.truth.rows`, JSON on standard input and output.

Input: a list of hosts with their connection and sites. Output: a token and a session cookie of an administrator, the
primary keys of the locations at /version, by site, and the certificates in PEM.
"""

from __future__ import annotations

from typing import Any

from tests.support import panel_rows

# As a check of the host would find them.
VERSIONS = {"nginx": "1.22.1", "apache": "2.4.65", "native": "0.1.0"}


def create(given: list[dict[str, Any]]) -> dict[str, Any]:
    admin, team = panel_rows.people()
    locations: dict[str, int] = {}
    for host in given:
        web_server = panel_rows.web_server_of(host, host["engine"], VERSIONS[host["engine"]])
        locations |= {site["name"]: _site(admin, team, web_server, site) for site in host["sites"]}
    return panel_rows.access_of(admin) | {"locations": locations}


def _site(admin: Any, team: Any, web_server: Any, given: dict[str, Any]) -> int:
    from panel.websites import services

    content = {"upstream": given["upstream"]} if given["kind"] == "app" else {"root": given["root"]}
    site = services.site_create(
        actor=admin,
        team=team,
        name=given["name"],
        domains=[given["domain"]],
        web_server=web_server,
        port=given["port"],
        address="127.0.0.1",
        health_path="/index.html",
        **content,
    )
    block = site.blocks.get()
    if given["kind"] == "tls":
        name, pems = given["name"], (given["certificate"], given["key"])
        certificate = services.certificate_upload(
            actor=admin, team=team, name=name, certificate_pem=pems[0], private_key_pem=pems[1]
        )
        # The panel takes a loopback address for one that only the host itself reaches, and would not look at it.
        listens = [{"port": given["port"], "address": "", "tls": True}]
        services.block_update(actor=admin, block=block, listens=listens, certificate=certificate)
    location = services.location_create(
        actor=admin,
        block=block,
        match="=",
        pattern="/version",
        handler="return",
        return_code=200,
        return_value="mark-0",
    )
    return int(location.pk)


if __name__ == "__main__":
    panel_rows.run(create)
