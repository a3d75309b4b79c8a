"""Usual requests of browsers and tools over HTTP/3, sent by aioquic."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.suites.http3.client import Ended
from tests.suites.http3.conftest import LARGE, Site, serving
from tests.support.waiting import eventually


def test_http3_client_fetches_file_whole_and_in_ranges(site: Site) -> None:
    with site.client() as client:
        answer = client.get("/small.txt")
        assert (answer.status, bytes(answer.body), answer.headers["x-protocol"]) == (200, b"small", "HTTP/3.0")
        assert {"date", "etag", "last-modified", "content-length"} <= answer.headers.keys()
        answer = client.get("/large.bin")
        assert (answer.status, bytes(answer.body)) == (200, LARGE)
        answer = client.get("/large.bin", headers=[("range", "bytes=1000-1999")])
        assert (answer.status, bytes(answer.body)) == (206, LARGE[1000:2000])


def test_http3_head_has_fields_and_no_body(site: Site) -> None:
    """The application sends no length, because aioquic rejects a length without a body."""
    with site.client() as client:
        answer = client.get("/app", method="HEAD")
        assert (answer.status, bytes(answer.body), answer.headers["x-said"]) == (200, b"", "HEAD")
        assert client.get("/small.txt").status == 200


def test_http3_request_bodies_reach_application(site: Site) -> None:
    with site.client() as client:
        for body in (b"a=1", LARGE):
            answer = client.get("/app", method="POST", body=body)
            said = f"POST {len(body)} {hashlib.sha256(body).hexdigest()}"
            assert (answer.status, bytes(answer.body).decode()) == (200, said)


def test_http3_streams_get_their_own_responses(site: Site) -> None:
    with site.client() as client:
        client.get("/small.txt")
        paths = [("/small.txt", 200), ("/page.html", 200), ("/none", 404)] * 40
        answers = client.finish([client.ask(path) for path, _ in paths])
        assert [answer.status for answer in answers] == [status for _, status in paths]
        assert {bytes(answer.body) for answer in answers[::3]} == {b"small"}


def test_http3_client_resumes_with_0rtt(site: Site) -> None:
    with site.client() as client:
        client.get("/small.txt")
        client.run(lambda: bool(client.tickets))
        ticket = client.tickets[0]
    with site.client(ticket=ticket) as client:
        answer = client.get("/early")
        client.run(lambda: client.handshake is not None)
        assert client.handshake is not None
        assert client.handshake.session_resumed and client.handshake.early_data_accepted
        assert (answer.status, bytes(answer.body)) == (200, b"early=1")
        client.get("/small.txt")  # answered only once the server has the end of the handshake, which it counts then
    assert site.counted("early_data")
    assert site.counted("handshakes", 2)


def test_http3_retry_token_validates_address_once(server_root: Path) -> None:
    with serving(server_root, extra="quic_retry on;") as site:
        with site.client() as client:
            assert client.get("/small.txt").status == 200
            assert client.saw("transport:packet_received", packet_type="retry")
            client.run(lambda: bool(client.tokens))
            token = client.tokens[0]
        with site.client(token=token) as client:
            assert client.get("/small.txt").status == 200
            assert not client.saw("transport:packet_received", packet_type="retry")
        assert site.counted("retries")


def test_http3_connection_survives_address_change(site: Site) -> None:
    with site.client() as client:
        assert client.get("/small.txt").status == 200
        for _ in range(3):
            client.move()
            answer = client.get("/large.bin")
            assert (answer.status, bytes(answer.body)) == (200, LARGE)
        assert client.saw("transport:packet_received", frames="path_challenge")
    assert site.counted("migrations", 3)
    assert site.counted("packets_sent", 100)


def test_migrated_http3_client_reaches_its_worker(server_root: Path) -> None:
    with serving(server_root, workers=4) as site, site.client() as client:
        for _ in range(12):
            assert client.get("/small.txt").status == 200
            client.move()
        assert client.get("/small.txt").status == 200


def test_http3_connections_survive_reload(server_root: Path) -> None:
    slow = f"location /slow/ {{ alias {server_root}/www/; limit_rate 600k; }}"

    def generation(site: Site) -> bytes:
        with site.client() as client:
            try:
                return bytes(client.get("/generation").body)
            except Ended:  # the old worker had its first packet and was told to go before the request
                return b""

    with serving(server_root, extra=slow + ' location /generation { return 200 "old"; }', workers=2) as site:
        with site.client() as client:
            stream = client.ask("/slow/large.bin")
            client.run(lambda: bool(client.answers[stream].body))
            conf = server_root / "conf.d" / "site.conf"
            conf.write_text(conf.read_text().replace('"old"', '"new"'))
            assert site.instance.run("-s", "reload").returncode == 0
            assert eventually(lambda: generation(site) == b"new")
            # None of the new connections reaches the old worker, which is still there.
            assert [generation(site) for _ in range(6)] == [b"new"] * 6
            client.move()
            (answer,) = client.finish([stream])
            assert (answer.status, bytes(answer.body)) == (200, LARGE)
        with site.client() as client:
            for _ in range(6):
                assert client.get("/small.txt").status == 200
                client.move()


def test_http3_key_update_keeps_connection(site: Site) -> None:
    with site.client() as client:
        assert client.get("/small.txt").status == 200
        for _ in range(3):
            client.quic.request_key_update()
            answer = client.get("/large.bin")
            assert (answer.status, bytes(answer.body)) == (200, LARGE)
