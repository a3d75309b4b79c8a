"""Cache of the URLs of the panel's pages, because a long list links to thousands of pages."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.safestring import SafeString

# Types of arguments whose addresses are kept.
KEPT = (str, SafeString, int, UUID)


def address(name: str, *arguments: str | int | UUID, app: str | None = None) -> str:
    """Return `reverse(name, args=arguments, current_app=app)`. The last 8,000 URLs are cached in this process."""
    return _kept(name, app, get_script_prefix(), get_urlconf() or settings.ROOT_URLCONF, *arguments)


@lru_cache(maxsize=8000, typed=True)
def _kept(name: str, app: str | None, prefix: str, urls: str, *arguments: str | int | UUID) -> str:
    """Return the URL of a page. `prefix`, the script prefix, is only part of the cache key: `reverse` reads the
    prefix itself.
    """
    return reverse(name, urls, args=arguments, current_app=app)
