"""Row locks on sites, taken in a fixed order by everything that changes deployments.

Planning, confirming, cancelling and recording the result each change rows of several tables. All of them lock the sites
first, so two admins who act on one site are serialized and cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection

from panel.websites.models import Site


def sites_lock(sites: Iterable[int]) -> None:
    """Lock the rows of sites (ids) until the transaction ends. Raises AssertionError outside a transaction.

    Other transactions can still insert rows that refer to a locked site (PostgreSQL's FOR NO KEY UPDATE). SQLite has
    one writer at a time.
    """
    assert connection.in_atomic_block, "sites_lock outside a transaction holds nothing"
    wanted = sorted(set(sites))
    if wanted:
        list(Site.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk").values_list("pk"))
