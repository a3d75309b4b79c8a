"""What clients may do that browsers do seldom, done by aioquic."""

from __future__ import annotations

import os
import time

import pytest
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

from tests.suites.http3.client import TIMEOUT_S
from tests.suites.http3.conftest import LARGE, Site

#: First byte of a packet with a short header: its fixed bit.
SHORT = b"\x40"


@pytest.mark.parametrize(
    "suite",
    [CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384, CipherSuite.CHACHA20_POLY1305_SHA256],
)
def test_every_cipher_of_tls_protects_packets(site: Site, suite: CipherSuite) -> None:
    with site.client(cipher_suites=[suite]) as client:
        assert client.get("/small.txt").status == 200
        client.quic.request_key_update()
        answer = client.get("/large.bin")
        assert (answer.status, bytes(answer.body)) == (200, LARGE)


def test_a_client_of_another_version_is_told_ours_and_comes_again(site: Site) -> None:
    versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    with site.client(original_version=versions[0], supported_versions=versions) as client:
        assert client.get("/small.txt").status == 200
        assert client.saw("transport:packet_received", packet_type="version_negotiation")


def test_connection_ids_of_clients_may_be_as_long_as_they_get(site: Site) -> None:
    with site.client(connection_id_length=20) as client:
        answer = client.get("/large.bin")
        assert (answer.status, bytes(answer.body)) == (200, LARGE)


def test_a_client_that_forgot_that_its_connection_ended_is_reset(site: Site) -> None:
    with site.client() as client:
        assert client.get("/small.txt").status == 200
        own, token = client.end()
        assert len(token) == 16
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            # The server remembers the end of the connection for a while, and what it had to say may still be there.
            sent = SHORT + own + os.urandom(60)
            answer = client.exchange(sent)
            if answer.endswith(token):
                break
            assert time.monotonic() < deadline, "no stateless reset"
        assert len(answer) < len(sent)
    assert site.counted("stateless_resets")
