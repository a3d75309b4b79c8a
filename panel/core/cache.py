"""Redis cache that pages and tasks can do without, and a check whether Redis responds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

PING_TIMEOUT_S = 2.0
QUICK_TIMEOUT_S = 1.0
AWAY_FOR_S = 5.0


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


class Silence:
    """Memory of one process that Redis did not respond. It lasts for AWAY_FOR_S seconds; meanwhile, callers do not
    try Redis, so that one request waits for Redis only once.
    """

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self._until

    def begin(self, error: Exception) -> None:
        if not self.lasts:
            logger.info("Redis does not respond: %s", error)
        self._until = time.monotonic() + AWAY_FOR_S


silence = Silence()


def redis_responds_quickly() -> bool:
    """Return whether Redis responds within QUICK_TIMEOUT_S, for requests, which a visitor waits for. After a failure,
    return False for AWAY_FOR_S seconds without a try. True if the panel does not use Redis.
    """
    if not settings.REDIS_URL:
        return True
    if silence.lasts:
        return False
    try:
        return bool(_client(settings.REDIS_URL).ping())
    except (redis.RedisError, OSError) as error:
        silence.begin(error)
        return False


def _quick() -> dict[str, Any]:
    """Return options for a connection to Redis that fails fast: short timeouts, and none of redis-py's own retries."""
    return {
        "socket_timeout": QUICK_TIMEOUT_S,
        "socket_connect_timeout": QUICK_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
    }


@lru_cache(maxsize=1)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, **_quick())


class OptionalRedisCache(RedisCache):
    """Django's Redis cache, which behaves as if it were empty while Redis does not respond; `add` then returns True."""

    def __init__(self, server: Any, params: Any) -> None:
        super().__init__(server, {**params, "OPTIONS": {**_quick(), **params.get("OPTIONS", {})}})

    def add(self, key: Any, value: Any, *args: Any, **options: Any) -> bool:
        return bool(_unless_silent(lambda: super(OptionalRedisCache, self).add(key, value, *args, **options), True))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return _unless_silent(lambda: super(OptionalRedisCache, self).get(key, default, version), default)

    def set(self, key: Any, value: Any, *args: Any, **options: Any) -> None:
        _unless_silent(lambda: super(OptionalRedisCache, self).set(key, value, *args, **options), None)


def _unless_silent(call: Callable[[], Any], otherwise: Any) -> Any:
    """Return the result of `call`, a Redis command.

    Return `otherwise` if Redis does not respond, or if it did not respond to a command within the last AWAY_FOR_S
    seconds.
    """
    if silence.lasts:
        return otherwise
    try:
        return call()
    except redis.RedisError as error:
        silence.begin(error)
        return otherwise
