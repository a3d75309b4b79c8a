"""Operation `resolve`: resolve names on this host, in the way in which its web servers resolve them."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Dict, List

from agents.host import addresses
from agents.host.errors import Refusal
from agents.host.operations import Emit

MOST = 1000
AT_ONCE = 32
WAIT_S = 6.0  # for all names together; a silent DNS server takes longer


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Resolve the names: {"names"} -> {"addresses": {name: [address]}, "refused": {name: why}}.

    An unknown name has no addresses. A name is refused if it resolves to a metadata service or a link-local address. It
    is also refused if it was not resolved in time, because an attacker's DNS server could delay on purpose.
    """
    names = args.get("names")
    if not isinstance(names, list) or len(names) > MOST or not all(_is_name(name) for name in names):
        raise Refusal("invalid", "names is a list of at most %d host names" % MOST)
    found: Dict[str, List[str]] = {}
    waiting = list(dict.fromkeys(names))
    count = min(AT_ONCE, len(waiting))
    threads = [threading.Thread(target=_work, args=(waiting, found), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + WAIT_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    known = dict(found)
    refused = {name: "%s was not resolved within %d s" % (name, WAIT_S) for name in names if name not in known}
    refused.update(_refused(known))
    return {"addresses": {name: known.get(name, []) for name in names}, "refused": refused}


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 253 and name.isascii() and name.isprintable()


def _work(waiting: List[str], found: Dict[str, List[str]]) -> None:
    while True:
        try:
            name = waiting.pop()
        except IndexError:
            return
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            answers = []
        found[name] = list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _refused(known: Dict[str, List[str]]) -> Dict[str, str]:
    refused = {}
    for name, places in known.items():
        for place in places:
            reason = addresses.why_refused(place)
            if reason:
                refused[name] = "%s resolves to %s, %s" % (name, place, reason)
                break
    return refused
