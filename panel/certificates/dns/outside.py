"""Script that writes or removes one TXT record with dns-lexicon, in a process of its own.

Its standard input is JSON: {"provider", "options": {option: value}, "action": "add" or "remove", "zone", "name",
"value"}. If the DNS provider refuses the change, the script exits with 1, and the last line of standard error is the
reason.
The script uses dns-lexicon's class of the provider directly, because dns-lexicon's client would look up the zone, which
the panel knows.
"""

import importlib
import json
import sys

from lexicon.config import ConfigResolver


def main() -> int:
    request = json.load(sys.stdin)
    name = request["provider"]
    settings = {"provider_name": name, "domain": request["zone"], "ttl": 60, name: request["options"]}
    provider = importlib.import_module(f"lexicon._private.providers.{name}").Provider(
        ConfigResolver().with_dict(settings)  # type: ignore[no-untyped-call]
    )
    try:
        provider.authenticate()
        if request["action"] == "add":
            provider.create_record("TXT", request["name"], request["value"])
        else:
            provider.delete_record(None, "TXT", request["name"], request["value"])
        provider.cleanup()
    except Exception as error:  # noqa: BLE001 - each provider's class has errors of its own
        words = " ".join(str(error).split())
        sys.stderr.write(f"{type(error).__name__}: {words}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
