"""Reads: SSH certificate authorities, and the lines with which hosts let their certificates in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from django.db import connection
from django.db.models import QuerySet

from panel.accounts.models import User
from panel.hosts.models import AuthorityKind, Host, SshAuthority
from panel.remote.keys import authority_line


def authorities_visible(user: User) -> QuerySet[SshAuthority]:
    """SSH certificate authorities: all for administrators, none for other users."""
    rows = SshAuthority.objects.defer("private_key").prefetch_related("sign_ins")
    return rows if user.is_admin else rows.none()


def user_authorities() -> QuerySet[SshAuthority]:
    """Authorities that sign the panel's keys."""
    return SshAuthority.objects.filter(kind=AuthorityKind.USER)


T = TypeVar("T")
R = TypeVar("R")
_once: ContextVar[list[tuple[str, ...]] | None] = ContextVar("authorities of a loop over hosts", default=None)


@contextmanager
def authorities_once() -> Iterator[None]:
    """Read the authorities at most once in this block, for a loop over many hosts.

    Changes of the authorities take effect after the block. Threads read for themselves, unless they run in a copy of
    this context or a function of `with_authorities`.
    """
    if _once.get() is not None:
        yield
        return
    token = _once.set([])
    try:
        yield
    finally:
        _once.reset(token)


def with_authorities(work: Callable[[T], R]) -> Callable[[T], R]:
    """`work` for threads that each handle some of many hosts. The authorities are read now, and not by the threads."""
    known = [host_authorities()]

    def knowing(item: T) -> R:
        token = _once.set(known)
        try:
            return work(item)
        finally:
            _once.reset(token)

    return knowing


def host_authorities() -> tuple[str, ...]:
    """Public keys of the authorities that sign host keys, in a fixed order."""
    known = _once.get()
    if known is None:
        return _host_authorities()
    if not known:
        known.append(_host_authorities())
    return known[0]


def _host_authorities() -> tuple[str, ...]:
    """Read the public keys. Close a database connection that was opened for this, because threads without other queries
    call it.
    """
    was_closed = connection.connection is None
    rows = SshAuthority.objects.filter(kind=AuthorityKind.HOST).order_by("pk")
    found = tuple(rows.values_list("public_key", flat=True))
    if was_closed and not connection.in_atomic_block:
        connection.close()
    return found


def sign_in_line(host: Host) -> str:
    """Line of authorized_keys with which the host lets in what its authority signs; "" without an authority."""
    if host.authority is None:
        return ""
    return authority_line(host.authority.public_key, forwards=host.hosts_behind.exists())
