"""Load tools as the agent starts them: for each, the option that prints the version, and all options that are
permitted.

An option that is not listed is refused. Never list one that names a proxy, a script or another destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

# Kinds of options. A FILE is a file in the run's own folder.
SWITCH, VALUE, FILE = "switch", "value", "file"


@dataclass(frozen=True)
class LoadTool:
    """Properties of a load tool.

    `options`: permitted options, and the kind of each. `version`: the option that prints the version, and a pattern
    whose group is the version; None: the version of the tool's package is used. `connects_to_url`: the tool connects to
    the address in its URLs; otherwise an option or the agent's script names the address. `reads_urls`: the tool reads
    URLs from the file `urls` in the run's folder.
    """

    options: Dict[str, str]
    version: Optional[Tuple[str, str]] = None
    connects_to_url: bool = True
    reads_urls: bool = False


def _options(switches: str = "", values: str = "", files: str = "") -> Dict[str, str]:
    kinds = ((SWITCH, switches), (VALUE, values), (FILE, files))
    return {name: kind for kind, names in kinds for name in names.split()}


BUNDLED = "gallop-load"  # uploaded with a test bed or the request; never one found on the host
LOAD_TOOLS = {
    "ab": LoadTool(_options("-q -r -k -l", "-s -c -t -n -H", "-e"), ("-V", r"ApacheBench, Version (\S+)")),
    "h2load": LoadTool(
        _options("--h1", "-c -t -m -D -n -H --npn-list --rps --connect-to", "-i --log-file"),
        ("--version", r"nghttp2/(\S+)"),
        connects_to_url=False,
        reads_urls=True,
    ),
    "wrk": LoadTool(
        _options("--latency", "-c -t -d -H --timeout", "-s"),
        ("-v", r"wrk (?:debian/)?(\S+)"),
        connects_to_url=False,
    ),
    "siege": LoadTool(_options("-b", "-c -t -r -H", "-R -f"), ("-V", r"SIEGE (\S+)"), reads_urls=True),
    "hey": LoadTool(
        _options(
            "-disable-redirects -disable-compression -disable-keepalive",
            "-c -cpus -t -z -n -H -o -host",
        )
    ),
}
# Every program that the agent starts as a load tool.
PROGRAMS = {
    **LOAD_TOOLS,
    BUNDLED: LoadTool(
        _options("--h1 --h2 --h3 --json", "-c -m -t -D -n -H --rps --connect-to", "-i"),
        connects_to_url=False,
        reads_urls=True,
    ),
}
