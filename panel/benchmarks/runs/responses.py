"""Current responses of a web server, requested by the agent on the web server's own host."""

from __future__ import annotations

from collections.abc import Sequence

from panel.benchmarks.records import Response
from panel.benchmarks.tools.arguments import method_and_path
from panel.benchmarks.tools.commands import Endpoint
from panel.remote import pool
from panel.remote.target import Target

EACH_S = 20.0
SPARE_S = 30.0


def responses_of(
    remote: Target, endpoint: Endpoint, paths: Sequence[str], *, gzip: bool, testbed: str = ""
) -> list[Response]:
    """Request each path and return the responses in the order of `paths`, in the format of agents/host/answers.py.

    A path can begin with a method, for example `POST /` (`method_and_path`). Paths that occur more than once are
    requested once. `testbed` is the id of the test bed that the server belongs to. Raises RemoteError.
    """
    common = {
        "address": endpoint.address,
        "port": endpoint.port,
        "host": endpoint.name,
        "host_header": endpoint.authority,
        "tls": endpoint.tls,
        "gzip": gzip,
    }
    different = list(dict.fromkeys(paths))
    asked = {"requests": [{**common, **_request(path)} for path in different], "testbed": testbed}
    with pool.session(remote) as agent:
        answers = agent.call("answers", asked, timeout=EACH_S * len(different) + SPARE_S)["answers"]
    by_path = dict(zip(different, answers, strict=True))
    return [by_path[path] for path in paths]


def _request(entry: str) -> dict[str, str]:
    method, path = method_and_path(entry)
    return {"method": method, "path": path}
