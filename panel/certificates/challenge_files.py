"""Files of challenges on a host, through its agent; and whether the site's own web server answers with them."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Iterable, Mapping

from panel.certificates import handshakes
from panel.certificates.acme_client import Challenge
from panel.certificates.choices import ChallengeKind
from panel.certificates.listeners import Listener, exact_names, reached
from panel.hosts.models import Connection, Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.remote.target import Target
from panel.rendering import challenges
from panel.rendering.spec import SiteSpec

TIMEOUT_S = 20.0
ASK_TIMEOUT_S = 5.0


def _call(web_server: WebServer, operation: str, **values: object) -> None:
    root = web_server.paths["config_root"]
    args = {"folder": challenges.folder_of(root), "roots": [root], **values}
    with pool.session(target_for(web_server.host)) as agent:
        agent.call(operation, args, timeout=TIMEOUT_S)


def put(web_server: WebServer, files: Mapping[str, str]) -> None:
    """Raises RemoteError."""
    _call(web_server, "challenge_put", files=dict(files))


def remove(web_server: WebServer, tokens: Iterable[str]) -> None:
    """Raises RemoteError."""
    _call(web_server, "challenge_remove", names=list(tokens))


def host_address(host: Host) -> str:
    """Address at which the panel reaches the host's listeners; "" for the panel's own host."""
    return "" if host.connection == Connection.LOCAL else host.address


def through(host: Host) -> Target | None:
    """The target of a host behind a bastion; None for a host whose listeners the panel reaches itself."""
    return target_for(host) if host.bastion_id else None


def unanswered(spec: SiteSpec, host: Host, challenge: Challenge) -> str:
    """Reason why the site's web server does not show the challenge to the panel; "" if it does, or if the site has no
    listener of its kind that the panel could ask. It asks none behind a bastion.
    """
    if host.bastion_id:
        return ""
    is_tls = challenge.kind == ChallengeKind.TLS
    asked = _asked_over_tls if is_tls else _asked
    for block in spec.blocks:
        if is_tls:
            block = challenges.with_tls_listener(block, spec.tls_challenge_port)
        for listen in block.listens:
            if listen.tls != is_tls or challenge.name not in exact_names(block.names):
                continue
            address = reached(listen.address, host_address(host))
            if address and (problem := asked(address, listen.port, challenge)):
                return f"{challenge.name} on port {listen.port} of {host}: {problem}"
    return ""


def _asked_over_tls(address: str, port: int, challenge: Challenge) -> str:
    listener = Listener(challenges.tls_name(challenge.name), address, port, False, "")
    try:
        shown = handshakes.challenge_shown(listener)
    except handshakes.HandshakeFailed as error:
        return f"the web server does not show the challenge ({error})"
    if shown != hashlib.sha256(challenge.content.encode()).digest():
        return "the web server shows another certificate instead of the challenge"
    return ""


def _asked(address: str, port: int, challenge: Challenge) -> str:
    connection = http.client.HTTPConnection(address, port, timeout=ASK_TIMEOUT_S)
    host_name = f"[{challenge.name}]" if ":" in challenge.name else challenge.name
    try:
        connection.request("GET", challenges.PREFIX + challenge.file, headers={"Host": host_name})
        answer = connection.getresponse()
        body = answer.read(1000).decode("latin-1")
    except (OSError, http.client.HTTPException) as error:
        return f"the web server does not respond to the challenge ({type(error).__name__})"
    finally:
        connection.close()
    if answer.status != 200 or body.strip() != challenge.content:
        return f"the web server responds to the challenge with status {answer.status} instead of the file"
    return ""
