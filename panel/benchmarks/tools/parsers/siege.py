"""Parser for siege 4.0: the JSON at the end of its output. Times are in hundredths of a second, data in MiB; siege
reports no percentiles.
"""

from __future__ import annotations

import json

from panel.benchmarks.tools.parsers.metrics import Latency, Metrics, Output, ParseError

_MIB = 1024 * 1024
_RESOLUTION_MS = 10.0


def parse(output: Output) -> Metrics:
    begin, end = output.stdout.find("{"), output.stdout.rfind("}")
    try:
        values = json.loads(output.stdout[begin : end + 1])
        answered, failed = int(values["transactions"]), int(values["failed_transactions"])
        seconds = float(values["elapsed_time"])
    except (ValueError, KeyError, TypeError):
        raise ParseError(f"siege printed no result: {output.last_words()}") from None
    if answered and not seconds:
        raise ParseError("siege reported 0.00 s: the round is too short to measure. Use more requests, or set seconds.")
    return Metrics(
        requests=answered + failed,
        failed=failed,
        # siege counts a response of 400 or above as a transaction, but not as a successful one.
        non2xx=max(0, answered - int(values["successful_transactions"])),
        bytes=int(float(values["data_transferred"]) * _MIB),
        duration_s=seconds,
        throughput_rps=float(values["transaction_rate"]),
        latency_ms=Latency(
            resolution=_RESOLUTION_MS,
            mean=round(float(values["response_time"]) * 1000.0, 3) if answered else None,
            max=round(float(values["longest_transaction"]) * 1000.0, 3) if answered else None,
        ),
        errors={"failed": failed} if failed else {},
        achieved_concurrency=float(values["concurrency"]),
    )
