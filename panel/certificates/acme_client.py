"""Client of the ACME protocol (RFC 8555, RFC 9773), built on certbot's library. No database access.

Additions to the library: `replaces` in orders, repeated retries after a rejected nonce, root certificates of the
authority itself, and errors as sentences. Every call raises `AcmeProblem` for errors of the authority and of the
network.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as data_field
from typing import Any, TypeVar

import requests
from acme import challenges, client, errors, jws, messages
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from josepy.errors import Error as JoseError
from josepy.json_util import decode_b64jose, field
from josepy.jwa import ES256, RS256
from josepy.jwk import JWKEC, JWKRSA

from panel.certificates.acme_network import Network, NoAcme, aware, retry_time
from panel.certificates.choices import ChallengeKind
from panel.certificates.keys import is_address, key_read
from panel.certificates.renewal import Window
from panel.rendering.challenges import tls_file, tls_name

USER_AGENT = "Paddock"
TIMEOUT_S = 20
RATE_LIMITED = "rateLimited"  # RFC 8555 section 6.7
# Errors of the library and of reading the fields of a response.
NOT_ACME = (
    NoAcme,
    errors.Error,
    JoseError,
    requests.exceptions.JSONDecodeError,
    ValueError,
    KeyError,
    AttributeError,
)
T = TypeVar("T")


class AcmeProblem(Exception):
    """Error of a certificate authority.
    `retry_at` is the time of its Retry-After header, `code` the ACME error type, `is_unreachable` true if no ACME
    response arrived (none, or for example a proxy's error page), `failed_name` the name whose challenge failed."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        retry_at: dt.datetime | None = None,
        is_unreachable: bool = False,
        failed_name: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_at = retry_at
        self.is_unreachable = is_unreachable
        self.failed_name = failed_name


@dataclass(frozen=True)
class Endpoint:
    """A certificate authority, and an account at this authority with the account's key.
    `ca_pem` is "" for authorities that the system trusts; `url` is the account's URL, "" before the registration."""

    directory: str
    key_pem: str = data_field(repr=False)
    ca_pem: str = ""
    url: str = ""


@dataclass(frozen=True)
class Binding:
    """External account binding (RFC 8555 section 7.3.4): an ID and a key from the authority's own customer account."""

    key_id: str
    key: str = data_field(repr=False)


@dataclass(frozen=True)
class Challenge:
    """Challenge of one name: the file `file` must contain `content` (HTTP-01, TLS-ALPN-01), or the TXT record must have
    the value `content` (DNS-01)."""

    kind: ChallengeKind
    name: str
    authorization: str
    url: str
    content: str
    file: str = ""


@dataclass(frozen=True)
class Placed:
    url: str
    refusal: str = ""  # reason if the authority did not accept the order as a replacement


class _NewOrder(messages.NewOrder):
    replaces: str | None = field("replaces", omitempty=True)


class Authority:
    """Session with one certificate authority; the function `session` opens it."""

    def __init__(self, endpoint: Endpoint, network: Network) -> None:
        self._net = network
        self._endpoint = endpoint
        self._client: client.ClientV2 | None = None

    # --- the account ---

    def register(self, email_address: str, binding: Binding | None) -> str:
        """Register the account's key, agree to the terms of service, and return the account's URL.
        If the key is registered already, return the URL of its existing account."""

        def call() -> str:
            acme = self._connected()
            bound = None
            assert self._net.key is not None
            if binding is not None:
                bound = _bound(self._net.key, binding, acme.directory)
            new = messages.NewRegistration.from_data(
                email=email_address or None, terms_of_service_agreed=True, external_account_binding=bound
            )
            try:
                return str(acme.new_account(new).uri)
            except errors.ConflictError as conflict:
                return conflict.location

        return self._told(call)

    def known_url(self) -> str:
        """Return the URL of the account that this session's key belongs to; "" if no account has this key."""

        def call() -> str:
            acme = self._connected()
            try:
                return str(acme.new_account(messages.NewRegistration(only_return_existing=True)).uri)
            except errors.ConflictError as conflict:
                return conflict.location

        try:
            return self._told(call)
        except AcmeProblem as problem:
            if problem.code == "accountDoesNotExist":
                return ""
            raise

    def change_key(self, key_pem: str) -> None:
        """Replace the account's key at the authority (RFC 8555 section 7.3.5)."""

        def call() -> None:
            acme = self._connected()
            assert self._net.key is not None
            url = acme.directory["keyChange"]
            change = {"account": self._endpoint.url, "oldKey": self._net.key.public_key().to_partial_json()}
            new, algorithm = _jwk(key_pem)
            inner = jws.JWS.sign(json.dumps(change).encode(), key=new, alg=algorithm, nonce=None, url=url)
            self._post(url, inner)

        self._told(call)

    def caa_identities(self) -> list[str]:
        """Return the domains that stand for this authority in CAA records (RFC 8659); [] if it publishes none."""

        def call() -> list[str]:
            meta = self._connected().directory.to_partial_json().get("meta")
            return [str(item).lower() for item in getattr(meta, "caa_identities", None) or ()]

        return self._told(call)

    def deactivate(self) -> None:
        self._told(lambda: self._connected().deactivate_registration(self._account()))

    # --- orders ---

    def order(self, names: list[str], profile: str, replaces: str) -> Placed:
        """Place an order. With `replaces`, the order replaces the certificate with this ID (RFC 9773 section 5).
        If the authority rejects the order, order again without the ID, which may be unknown to the authority.
        Do not order again after a rate limit, because orders that replace nothing have lower limits."""
        try:
            return Placed(self._order(names, profile, replaces))
        except AcmeProblem as problem:
            if not replaces or problem.is_unreachable or problem.code == RATE_LIMITED:
                raise
            return Placed(self._order(names, profile, ""), refusal=problem.message)

    def _order(self, names: list[str], profile: str, replaces: str) -> str:
        def call() -> str:
            acme = self._connected()
            found = [
                messages.Identifier(
                    typ=messages.IDENTIFIER_IP if is_address(name) else messages.IDENTIFIER_FQDN, value=name
                )
                for name in names
            ]
            is_known = "renewalInfo" in acme.directory.to_partial_json()
            new = _NewOrder(identifiers=found, profile=profile or None, replaces=replaces if is_known else None)
            try:
                return str(self._post(acme.directory["newOrder"], new).headers["Location"])
            except errors.ConflictError as conflict:  # RFC 9773, 5: already replaced, even by a failed order
                raise AcmeProblem("Another order replaces this certificate.", code="alreadyReplaced") from conflict

        return self._told(call)

    def status(self, url: str) -> messages.Order:
        def call() -> messages.Order:
            found: messages.Order = messages.Order.from_json(self._post(url, None).json())
            return found

        return self._told(call)

    def challenges(self, url: str, kind: ChallengeKind) -> list[Challenge]:
        """Return the pending challenges of the given kind of the order at `url`. Raises AcmeProblem if an authorization
        failed.
        """

        def call() -> list[Challenge]:
            order = messages.Order.from_json(self._post(url, None).json())
            found = [self._challenge(item, kind) for item in order.authorizations]
            return [item for item in found if item is not None]

        return self._told(call)

    def _challenge(self, url: str, kind: ChallengeKind) -> Challenge | None:
        body = messages.Authorization.from_json(self._post(url, None).json())
        name = body.identifier.value
        if body.status == messages.STATUS_VALID:
            return None
        for item in body.challenges:
            if item.error is not None:
                code = item.error.code or "unauthorized"
                raise AcmeProblem(f"{name}: {_words(item.error)}", code=code, failed_name=name)
        if body.status != messages.STATUS_PENDING:
            words = f"The certificate authority ended the authorization of {name} with the status {body.status.name}."
            raise AcmeProblem(words, code="unauthorized")
        for item in body.challenges:
            found = item.chall.to_partial_json()
            if found["type"] == kind:
                content, file = self._proof(kind, str(found["token"]), name)
                return Challenge(kind, name, url, item.uri, content, file)
        raise AcmeProblem(f"The certificate authority offers no {kind} challenge for {name}.", code="unsupported")

    def _proof(self, kind: ChallengeKind, token: str, name: str) -> tuple[str, str]:
        """Return (content, file name) of a challenge's file or TXT record; the file name is "" for DNS-01. The content
        is derived from the token and the account's key (RFC 8555 section 8.1).
        """
        if kind == ChallengeKind.DNS:
            return challenges.DNS01(token=decode_b64jose(token)).validation(self._net.key), ""
        content = challenges.HTTP01(token=decode_b64jose(token)).key_authorization(self._net.key)
        return content, tls_file(tls_name(name)) if kind == ChallengeKind.TLS else token

    def answer(self, challenge: Challenge) -> None:
        """Tell the authority that a challenge's file or TXT record is in place; the same message for all kinds of
        challenges.
        """
        self._told(lambda: self._post(challenge.url, challenges.HTTP01Response()))

    def finalize(self, url: str, request: x509.CertificateSigningRequest) -> None:
        self._told(lambda: self._post(url, messages.CertificateRequest(csr=request)))

    def download(self, url: str) -> str:
        """Return the certificate chain in PEM, the site's own certificate first."""
        return self._told(lambda: self._post(url, None).text)

    def revoke(self, certificate: x509.Certificate, reason: int = 0) -> None:
        self._told(lambda: self._connected().revoke(certificate, reason))

    # --- renewal information ---

    def window(self, certificate_id: str) -> tuple[Window | None, dt.datetime | None]:
        """Return (window, time): the renewal window that the authority suggests (RFC 9773), and the time from its
        Retry-After header. (None, None) if the authority suggests no renewal windows.
        """

        def call() -> tuple[Window | None, dt.datetime | None]:
            directory = self._connected().directory.to_partial_json()
            if not certificate_id or "renewalInfo" not in directory:
                return None, None
            response = self._net.get(f"{directory['renewalInfo']}/{certificate_id}")
            found = messages.RenewalInfo.from_json(response.json()).suggested_window
            return Window(aware(found.start), aware(found.end)), self._retry_at()

        return self._told(call)

    # --- below ---

    def _account(self) -> messages.RegistrationResource:
        return messages.RegistrationResource(body=messages.Registration(), uri=self._endpoint.url)

    def _connected(self) -> client.ClientV2:
        if self._client is None:
            directory = client.ClientV2.get_directory(self._endpoint.directory, self._net)
            self._client = client.ClientV2(directory, self._net)
            if self._endpoint.url:
                self._net.account = self._account()
        return self._client

    def _post(self, url: str, body: Any) -> requests.Response:
        acme = self._connected()
        return self._net.post(url, body, new_nonce_url=acme.directory["newNonce"])

    def _retry_at(self) -> dt.datetime | None:
        return retry_time(self._net.retry_after, dt.datetime.now(dt.UTC))

    def _told(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except messages.Error as error:
            code = str(error.typ).rsplit(":", maxsplit=1)[-1]
            raise AcmeProblem(_words(error), code=code, retry_at=self._retry_at()) from error
        except NOT_ACME as error:
            text = f"The certificate authority at {self._endpoint.directory} did not respond as ACME requires"
            raise AcmeProblem(
                f"{text}: {self._net.received}.", retry_at=self._retry_at(), is_unreachable=True
            ) from error
        except requests.exceptions.SSLError as error:
            text = f"The TLS certificate of {self._endpoint.directory} is not trusted. Check the account's CA file."
            raise AcmeProblem(text, is_unreachable=True) from error
        except (requests.exceptions.RequestException, OSError) as error:
            text = f"The certificate authority at {self._endpoint.directory} does not respond ({type(error).__name__})."
            raise AcmeProblem(text, is_unreachable=True) from error


def _words(error: messages.Error) -> str:
    """Return the text of an ACME error, and of each subproblem (RFC 8555 section 6.7.1) with its domain name."""
    text = error.detail or error.title or str(error.typ)
    parts = [f"{item.identifier.value}: {item.detail}" for item in error.subproblems or () if item.identifier]
    return " ".join([text, *parts])[:2000]


def _bound(key: Any, binding: Binding, directory: messages.Directory) -> dict[str, Any]:
    """Return the JSON object that binds a registration to the customer's account at the authority (external account
    binding, RFC 8555 section 7.3.4). Raises AcmeProblem if the key of the binding is not base64url.
    """
    try:
        found = messages.ExternalAccountBinding.from_data(key.public_key(), binding.key_id, binding.key, directory)
    except ValueError as error:
        text = "The external account key is not valid base64url. Copy the key from your account at the authority again."
        raise AcmeProblem(text, code="externalAccountKey") from error
    return dict(found)


def _jwk(key_pem: str) -> tuple[Any, Any]:
    """Return (JSON Web Key of certbot's library, signature algorithm) for a private key in PEM."""
    key = key_read(key_pem)
    is_curve = isinstance(key, ec.EllipticCurvePrivateKey)
    return (JWKEC(key=key), ES256) if is_curve else (JWKRSA(key=key), RS256)


@contextmanager
def session(endpoint: Endpoint) -> Iterator[Authority]:
    """Open a session with a certificate authority, with the key of an account."""
    jwk, algorithm = _jwk(endpoint.key_pem)
    network = Network(jwk, alg=algorithm, user_agent=USER_AGENT, timeout=TIMEOUT_S)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        if endpoint.ca_pem:
            file.write(endpoint.ca_pem)
            file.flush()
            network.verify_ssl = file.name  # type: ignore[assignment]
        try:
            yield Authority(endpoint, network)
        finally:
            network.session.close()


def wait_until(check: Callable[[], T | None], *, timeout_s: float, every_s: float = 1.0) -> T | None:
    """Call `check` until it returns a value, and return that value; None after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = check()
        if found is not None or time.monotonic() > deadline:
            return found
        time.sleep(every_s)
