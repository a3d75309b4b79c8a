"""Rare client behavior over HTTP/3, sent by aioquic."""

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
def test_every_tls_cipher_protects_quic_packets(site: Site, suite: CipherSuite) -> None:
    with site.client(cipher_suites=[suite]) as client:
        assert client.get("/small.txt").status == 200
        client.quic.request_key_update()
        answer = client.get("/large.bin")
        assert (answer.status, bytes(answer.body)) == (200, LARGE)


def test_quic_version_negotiation_lets_client_retry(site: Site) -> None:
    versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    with site.client(original_version=versions[0], supported_versions=versions) as client:
        assert client.get("/small.txt").status == 200
        assert client.saw("transport:packet_received", packet_type="version_negotiation")


def test_quic_client_connection_ids_may_have_maximum_length(site: Site) -> None:
    with site.client(connection_id_length=20) as client:
        answer = client.get("/large.bin")
        assert (answer.status, bytes(answer.body)) == (200, LARGE)


def test_quic_packet_of_closed_connection_gets_stateless_reset(site: Site) -> None:
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
