"""Parser of JSON, the only content type that request bodies may have."""

from __future__ import annotations

import json
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class StrictJSONParser(JSONParser):
    r"""JSON parser that rejects bodies nested too deeply for Python, and single surrogates (\ud800).

    No database, file or response can store single surrogates (RFC 8259 section 8.2).
    """

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        try:
            found = super().parse(stream, media_type, parser_context)
            json.dumps(found, ensure_ascii=False).encode()
        except RecursionError as error:
            raise ParseError("The JSON in this body is nested too deeply.") from error
        except UnicodeEncodeError as error:
            raise ParseError(
                "The body contains half of a surrogate pair, which is not valid text. Remove the surrogate."
            ) from error
        return found
