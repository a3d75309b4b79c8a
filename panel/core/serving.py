"""The web process: uvicorn, set up the same way in every mode."""

from __future__ import annotations

STOP_WITHIN_S = 3  # open event streams would keep it for a quarter of an hour; browsers open them again


def serve(address: str, port: int) -> None:
    """Answer requests at this address until a signal ends the process. SIGTERM stops it within seconds."""
    import uvicorn

    uvicorn.run(
        "panel.asgi:application",
        host=address,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # PADDOCK_TRUSTED_PROXIES says which proxies to believe
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
