"""A process that writes or removes one TXT record by dns-lexicon. It reads the request as JSON from its input.

    {"provider", "options": {option: value}, "action": "add" or "remove", "zone", "name", "value"}

It ends with 1 and the reason on its last line of standard error if the provider refuses. The library's own client would
look the zone up once more; the panel knows it, so the provider's class is used directly.
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
