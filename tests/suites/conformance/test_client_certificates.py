"""Certificates of clients are required, checked and passed on alike by real nginx, Apache and gallop."""

from __future__ import annotations

import dataclasses
import datetime as dt
import http.client
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import ClientCertificates, Header, Listen, Location, ServerBlock, SiteSpec, TlsFiles
from tests.rendering.cases import WEB_SERVERS
from tests.suites.conformance.expected_responses import fixed
from tests.suites.conformance.servers import ENGINES, Engine, serving
from tests.support.bundled_programs import load_binary
from tests.support.client_certificates import Authority, Client
from tests.support.ports import free_port
from tests.support.process import tool

REFUSED = 400  # an ended handshake counts as well: 0
SHOWN = "$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_serial"


@dataclass
class Door:
    """One HTTPS port of a server."""

    port: int
    plain: int

    def ask(
        self, client: Client | None = None, *, sni: str | None = "required.test", host: str = "required.test"
    ) -> tuple[int, str]:
        """Status and the X-Client header; 0 for a connection that the server ended."""
        try:
            return self._asked(_context(client), sni, host)[:2]
        except (OSError, http.client.HTTPException):
            return 0, ""

    def resumed(self, client: Client | None, first: str, second: str) -> int:
        """Status of a request to `second` in a session that began with `first`."""
        context = _context(client)
        session = self._asked(context, first, first)[2]
        assert session is not None
        try:
            return self._asked(context, second, second, session)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def _asked(
        self, context: ssl.SSLContext, sni: str | None, host: str, session: ssl.SSLSession | None = None
    ) -> tuple[int, str, ssl.SSLSession | None]:
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        with raw, context.wrap_socket(raw, server_hostname=sni, session=session) as secure:
            secure.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            response = http.client.HTTPResponse(secure)
            response.begin()
            response.read()
            return response.status, response.headers.get("X-Client", ""), secure.session


def _context(client: Client | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(client.path)
    return context


@dataclass
class People:
    """Clients of one authority, of its intermediate, and of nobody's."""

    authority: Authority
    ann: Client
    expired: Client
    revoked: Client
    below: Client  # signed by the intermediate
    stranger: Client
    cousin: Client  # of the authority that another site trusts
    other: Authority


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    folder = tmp_path_factory.mktemp("clients")
    authority, other = Authority("Clients"), Authority("Others")
    inner = Authority("Inner", authority)
    revoked = authority.client(folder / "revoked", "Rob")
    authority.revoked.append(revoked.certificate.serial_number)
    return People(
        authority,
        authority.client(folder / "ann", "Ann"),
        authority.client(folder / "expired", "Eve", ends=dt.timedelta(days=-1)),
        revoked,
        inner.client(folder / "below", "Bea"),
        Authority("Clients").client(folder / "stranger", "Ann"),  # the same names, another key
        other.client(folder / "cousin", "Cat"),
        other,
    )


def _site(name: str, port: int, plain: int, root: Path, clients: ClientCertificates | None, **more: object) -> SiteSpec:
    files = TlsFiles("own", f"{root}/tls/own.crt", f"{root}/tls/own.key")
    place = Location(
        "", "/", "return", return_code=200, return_value=name, headers=(Header("X-Client", SHOWN, always=True),)
    )
    listens = (Listen(port, tls=True, http2=True, http3=True), Listen(plain))
    block = ServerBlock(
        listens, (f"{name}.test",), tls=files, locations=(place,), client_certificates=clients, redirect_to_https=True
    )
    return SiteSpec(name, (dataclasses.replace(block, **more),))  # type: ignore[arg-type]


@contextmanager
def doors(engine: Engine, root: Path, people: People, **changed: object) -> Iterator[Door]:
    """Sites that require, accept and do not request certificates, and one of another authority, on one port."""
    door, probe = Door(free_port(), free_port()), free_port()
    files = f"{root}/clients"
    own = ClientCertificates(True, people.authority.pem, f"{files}/ca.pem")
    own = dataclasses.replace(own, **changed)  # type: ignore[arg-type]
    theirs = ClientCertificates(True, people.other.pem, f"{files}/other.pem")
    sites = [
        _site(name, door.port, door.plain, root, clients)
        for name, clients in (
            ("open", None),
            ("required", own),
            ("optional", dataclasses.replace(own, required=False)),
            ("theirs", theirs),
        )
    ]
    waits = SiteSpec("door", (ServerBlock((Listen(probe),), ("b.test",), locations=(fixed("", "/", "open"),)),))
    with serving(engine, [*sites, waits], root, probe):
        yield door


def every(function: object) -> object:
    return pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)(function)  # type: ignore[arg-type]


@every
@pytest.mark.parametrize("has_extensions", [True, False])
def test_only_valid_certificates_of_the_authority_are_accepted(
    engine: Engine, server_root: Path, people: People, has_extensions: bool
) -> None:
    text = people.authority.crl(has_extensions=has_extensions)
    crl = {"crl": text, "crl_path": f"{server_root}/clients/crl.pem"}
    with doors(engine, server_root, people, **crl) as door:
        assert door.ask()[0] == REFUSED
        status, shown = door.ask(people.ann)
        subject, issuer = "CN=Ann,O=Example\\, Inc.", "CN=Clients,O=Example\\, Inc."
        assert (status, shown) == (200, f"SUCCESS|{subject}|{issuer}|{people.ann.serial}")
        for client in (people.expired, people.revoked, people.stranger, people.cousin):
            assert door.ask(client)[0] in (0, REFUSED), client.path.name


@every
@pytest.mark.parametrize("has_extensions", [True, False])
def test_expired_revocation_list_refuses_everybody(
    engine: Engine, server_root: Path, people: People, has_extensions: bool
) -> None:
    text = people.authority.crl(ends=dt.timedelta(days=-1), has_extensions=has_extensions)
    with doors(engine, server_root, people, crl=text, crl_path=f"{server_root}/clients/crl.pem") as door:
        assert door.ask(people.ann)[0] in (0, REFUSED)


@every
def test_optional_certificate_is_told_to_the_application(engine: Engine, server_root: Path, people: People) -> None:
    with doors(engine, server_root, people) as door:
        names = {"sni": "optional.test", "host": "optional.test"}
        assert door.ask(**names) == (200, "NONE|||")
        status, shown = door.ask(people.ann, **names)
        assert status == 200 and shown.startswith("SUCCESS|CN=Ann")
        assert door.ask(people.stranger, **names)[0] in (0, REFUSED)


@every
@pytest.mark.parametrize("depth", [0, 1])
def test_intermediate_is_accepted_only_within_the_depth(
    engine: Engine, server_root: Path, people: People, depth: int
) -> None:
    with doors(engine, server_root, people, depth=depth) as door:
        assert door.ask(people.ann)[0] == 200
        found = door.ask(people.below)[0]
        assert found == 200 if depth else found in (0, REFUSED)


@every
def test_another_name_in_the_handshake_does_not_go_around_the_check(
    engine: Engine, server_root: Path, people: People
) -> None:
    """The name of a site without a check, of a site with another authority, and no name at all."""
    with doors(engine, server_root, people) as door:
        for sni in ("open.test", "theirs.test", "optional.test", None):
            assert door.ask(sni=sni)[0] != 200, sni
        assert door.ask(people.cousin, sni="theirs.test", host="theirs.test")[0] == 200
        assert door.ask(people.cousin, sni="theirs.test")[0] != 200


@every
def test_resumed_session_does_not_go_around_the_check(engine: Engine, server_root: Path, people: People) -> None:
    with doors(engine, server_root, people) as door:
        assert door.resumed(people.ann, "required.test", "required.test") == 200
        for first in ("open.test", "optional.test"):
            assert door.resumed(None, first, "required.test") != 200, first
        assert door.resumed(people.cousin, "theirs.test", "required.test") != 200


@every
def test_plain_http_leads_to_https_and_serves_nothing(engine: Engine, server_root: Path, people: People) -> None:
    with doors(engine, server_root, people) as door:
        connection = http.client.HTTPConnection("127.0.0.1", door.plain, timeout=30)
        connection.request("GET", "/x", headers={"Host": "required.test"})
        response = connection.getresponse()
        assert (response.status, response.headers["Location"]) == (301, f"https://required.test:{door.port}/x")


@every
def test_http2_has_the_same_check(engine: Engine, server_root: Path, people: People) -> None:
    with doors(engine, server_root, people) as door:
        assert _curl(door.port, None) == "400"
        assert _curl(door.port, people.ann) == "200"


def _curl(port: int, client: Client | None) -> str:
    argv = [tool("curl"), "-sk", "--http2", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "60"]
    argv += ["--resolve", f"required.test:{port}:127.0.0.1", f"https://required.test:{port}/x"]
    argv += ["--cert", str(client.path)] if client else []
    return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout


def test_http3_of_gallop_has_the_same_check(server_root: Path, people: People) -> None:
    with doors(ENGINES[-1], server_root, people) as door:
        argv = [str(load_binary()), "--h3", "-n", "3", "-c", "1", f"https://required.test:{door.port}/x"]
        argv += ["--connect-to", f"127.0.0.1:{door.port}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        assert re.search(r"\b3 4xx\b", done.stdout) and re.search(r"\b0 2xx\b", done.stdout), done.stdout


def test_openlitespeed_refuses_the_site_instead_of_serving_it_without_the_check(people: People) -> None:
    clients = ClientCertificates(True, people.authority.pem, "/etc/paddock/ca.pem")
    site = _site("required", 443, 80, Path("/etc/paddock"), clients)
    with pytest.raises(NotExpressible, match="bypasses the check of client certificates"):
        render(site, WEB_SERVERS["openlitespeed"])
