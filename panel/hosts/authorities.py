"""Selectors for SSH certificate authorities, and the lines of authorized_keys that accept their certificates."""

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
    """Return all SSH certificate authorities for administrators, none for other users."""
    rows = SshAuthority.objects.defer("private_key").prefetch_related("sign_ins")
    return rows if user.is_admin else rows.none()


def user_authorities() -> QuerySet[SshAuthority]:
    """Return the SSH certificate authorities that sign the panel's keys."""
    return SshAuthority.objects.filter(kind=AuthorityKind.USER)


T = TypeVar("T")
R = TypeVar("R")
_once: ContextVar[list[tuple[str, ...]] | None] = ContextVar("authorities of a loop over hosts", default=None)


@contextmanager
def authorities_once() -> Iterator[None]:
    """Context manager in which `host_authorities` reads the database at most once, for a loop over many hosts.

    A change of the authorities has effect after the block. Other threads read the database themselves, unless they run
    in a copy of this context (contextvars), or run a function that `with_authorities` returned.
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
    """Return `work` as a function for threads that handle many hosts. The SSH authorities are read now, once for all
    threads.
    """
    known = [host_authorities()]

    def knowing(item: T) -> R:
        token = _once.set(known)
        try:
            return work(item)
        finally:
            _once.reset(token)

    return knowing


def host_authorities() -> tuple[str, ...]:
    """Return the public keys of the SSH authorities that sign host keys, in a fixed order. Inside `authorities_once`,
    they are read from the database only once.
    """
    known = _once.get()
    if known is None:
        return _host_authorities()
    if not known:
        known.append(_host_authorities())
    return known[0]


def _host_authorities() -> tuple[str, ...]:
    """Read the public keys of the SSH authorities that sign host keys from the database. Close the database connection
    if this call opened it: a thread that makes no other query would leave the connection open.
    """
    was_closed = connection.connection is None
    rows = SshAuthority.objects.filter(kind=AuthorityKind.HOST).order_by("pk")
    found = tuple(rows.values_list("public_key", flat=True))
    if was_closed and not connection.in_atomic_block:
        connection.close()
    return found


def sign_in_line(host: Host) -> str:
    """Return the line of authorized_keys with which a host accepts keys that its authority signs; "" if the host has no
    authority.
    """
    if host.authority is None:
        return ""
    return authority_line(host.authority.public_key, forwards=host.hosts_behind.exists())
