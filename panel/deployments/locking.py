"""One order of locks for everything that changes the deployments of a site.

Planning, confirming, cancelling and recording the end of a deployment each change rows of several tables. Whoever does
so locks the sites first: two admins who act on one site follow one another and cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection

from panel.websites.models import Site


def sites_lock(sites: Iterable[int]) -> None:
    """Hold these sites until the transaction ends. Needs a transaction.

    The lock leaves room for rows that only refer to a site (FOR NO KEY UPDATE, PostgreSQL 13.3). SQLite has one writer
    at a time.
    """
    assert connection.in_atomic_block, "sites_lock outside a transaction holds nothing"
    wanted = sorted(set(sites))
    if wanted:
        list(Site.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk").values_list("pk"))
