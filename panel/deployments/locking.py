"""A fixed order of locks for all changes to a site's deployments.

Planning, confirming, cancelling and recording the result each change rows of several tables. All of them lock the sites
first, so two admins who act on one site are serialized and cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection

from panel.websites.models import Site


def sites_lock(sites: Iterable[int]) -> None:
    """Lock these sites until the transaction ends; requires a transaction.

    The lock permits rows that only refer to a site (FOR NO KEY UPDATE, PostgreSQL 13.3). SQLite has one writer at a
    time.
    """
    assert connection.in_atomic_block, "sites_lock outside a transaction holds nothing"
    wanted = sorted(set(sites))
    if wanted:
        list(Site.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk").values_list("pk"))
