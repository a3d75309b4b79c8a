"""CAA records: the certificate authorities that may issue certificates for a domain name (RFC 8659)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dns.exception
import dns.resolver

from panel.certificates.keys import is_address
from panel.core.resolvers import resolver


@dataclass(frozen=True)
class CaaRecord:
    """A CAA record: `tag` is issue, issuewild or another; `value` is an authority, with parameters after `;`."""

    tag: str
    value: str

    @property
    def authority(self) -> str:
        """Return the domain of the authority; "" forbids every authority."""
        return self.value.partition(";")[0].strip().lower().rstrip(".")


def forbidden(names: Iterable[str], identities: Sequence[str]) -> list[str]:
    """Return a sentence for each of the names that CAA records forbid the authority with these identities to certify.

    Return [] if the authority publishes no identity, or if DNS does not respond. The authority then rejects a forbidden
    name itself.
    """
    found: dict[str, None] = {}
    for name in names if identities else ():
        if is_address(name):  # an address has no CAA records (RFC 8738 section 5)
            continue
        bare = name.removeprefix("*.")
        place, rows = _relevant(bare)
        words = refusal(name, place, rows, identities)
        if words:
            found[words] = None
    return list(found)


def refusal(name: str, place: str, rows: Sequence[CaaRecord], identities: Sequence[str]) -> str:
    """Return a sentence if the CAA records `rows` of the domain `place` forbid the authority to certify `name`; "" if
    they allow it.
    """
    tags = ("issuewild", "issue") if name.startswith("*.") else ("issue",)
    relevant: list[CaaRecord] = next((part for tag in tags if (part := [row for row in rows if row.tag == tag])), [])
    if not relevant or any(row.authority in identities for row in relevant):
        return ""
    allowed = ", ".join(sorted({row.authority for row in relevant} - {""}))
    issuers = f"only {allowed}" if allowed else "no certificate authority"
    return (
        f"The CAA record of {place} allows {issuers} to issue certificates for {name}. Add {identities[0]} to the "
        "CAA record, or choose another certificate authority."
    )


def _relevant(name: str) -> tuple[str, list[CaaRecord]]:
    """Return (domain, CAA records): the records that apply to `name`, and the domain that has these records.

    The domain is `name` or its closest parent domain with CAA records. The records are [] if no domain has any, or if
    DNS does not respond.
    """
    asking = resolver()
    labels = name.split(".")
    for start in range(len(labels)):
        place = ".".join(labels[start:])
        try:
            answer = asking.resolve(place, "CAA")
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            continue
        except dns.exception.DNSException:
            return place, []
        return place, [CaaRecord(row.tag.decode().lower(), row.value.decode()) for row in answer]
    return name, []
