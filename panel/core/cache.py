"""Redis cache that pages and tasks can do without, and a check whether Redis responds."""

from __future__ import annotations

import logging
from typing import Any

import redis
from django.conf import settings
from django.core.cache.backends.redis import RedisCache

logger = logging.getLogger(__name__)

PING_TIMEOUT_S = 2.0


def redis_responds() -> bool:
    """Return whether Redis responds; True if the panel does not use Redis."""
    if not settings.REDIS_URL:
        return True
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=PING_TIMEOUT_S, socket_connect_timeout=PING_TIMEOUT_S
        ) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


class OptionalRedisCache(RedisCache):
    """Django's Redis cache, which behaves as if it were empty while Redis does not respond; `add` then returns True."""

    def add(self, key: Any, value: Any, *args: Any, **options: Any) -> bool:
        try:
            return super().add(key, value, *args, **options)
        except redis.RedisError as error:
            logger.info("the cache does not respond: %s", error)
            return True

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except redis.RedisError as error:
            logger.info("the cache does not respond: %s", error)
            return default

    def set(self, key: Any, value: Any, *args: Any, **options: Any) -> None:
        try:
            super().set(key, value, *args, **options)
        except redis.RedisError as error:
            logger.info("the cache does not respond: %s", error)
