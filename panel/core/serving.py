"""Web process: uvicorn, with the same settings in every mode."""

from __future__ import annotations

import uvicorn

STOP_WITHIN_S = 3  # open event streams would delay the stop by a quarter of an hour; browsers reconnect


def serve(address: str, port: int) -> None:
    """Serve HTTP requests at `address` and `port` until a signal ends the process; SIGTERM ends it within seconds."""
    uvicorn.run(
        "panel.asgi:application",
        host=address,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # PADDOCK_TRUSTED_PROXIES lists the trusted proxies
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
