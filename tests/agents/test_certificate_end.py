"""The agent reads the end of certificates that it does not verify."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from agents.host.certificate_end import end_of

KEY = ec.generate_private_key(ec.SECP256R1())


def der(ends: dt.datetime, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = KEY, names: int = 1) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.example")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(dt.datetime(1990, 1, 1))
    alternatives = x509.SubjectAlternativeName([x509.DNSName(f"n{number}.example") for number in range(names)])
    builder = builder.not_valid_after(ends).add_extension(alternatives, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    "ends",
    [
        dt.datetime(1999, 12, 31, 23, 59, 59),
        dt.datetime(2026, 11, 27, 20, 0, 1),
        dt.datetime(2049, 12, 31, 23, 59, 59),  # the last with two digits of the year
        dt.datetime(2050, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59),
    ],
)
def test_end_is_that_of_the_certificate(ends: dt.datetime) -> None:
    assert end_of(der(ends)) == int(ends.replace(tzinfo=dt.UTC).timestamp())


def test_end_of_certificate_with_many_names_and_large_key() -> None:
    ends = dt.datetime(2031, 1, 1)
    made = der(ends, rsa.generate_private_key(65537, 4096), names=400)
    assert end_of(made) == int(ends.replace(tzinfo=dt.UTC).timestamp())


@given(st.binary(max_size=200))
def test_other_bytes_have_no_end(data: bytes) -> None:
    assert end_of(data) is None


@given(st.integers(0, 600), st.binary(max_size=4))
def test_damaged_certificate_never_fails(cut: int, inserted: bytes) -> None:
    whole = der(dt.datetime(2031, 1, 1))
    found = end_of(whole[:cut] + inserted + whole[cut:])
    assert found is None or isinstance(found, int)
    assert end_of(whole[: min(cut, len(whole) - 1)]) is None
