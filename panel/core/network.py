"""Address of a request's client; forwarded headers are trusted only from configured proxies."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def _is_trusted(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(ip in ipaddress.ip_network(network, strict=False) for network in settings.TRUSTED_PROXIES)


def client_address(request: HttpRequest) -> str:
    """Return the client's address.

    Behind trusted proxies, this is the last X-Forwarded-For entry that is not the address of a trusted proxy.
    """
    address = str(request.META.get("REMOTE_ADDR", ""))
    if not _is_trusted(address):
        return address
    hops = [hop.strip() for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if hop.strip()]
    for hop in reversed(hops):
        try:
            ipaddress.ip_address(hop)
        except ValueError:
            break
        address = hop
        if not _is_trusted(hop):
            break
    return address
