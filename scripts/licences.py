#!/usr/bin/env python3
"""Check that every Rust package of the native server and its tests has a license and a source that the project permits.

    licences.py    reads Cargo.lock through `cargo metadata`; needs no network once the packages are fetched

The license expression (SPDX, or the older `A/B`) must be satisfiable from ALLOWED. The source must be the package
registry or this repository: code from a git repository has no version that anybody could audit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).resolve().parent.parent / "native"

# Permissive ones only: what is shipped is one binary under the project's own licence.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "OpenSSL",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
}


class Malformed(Exception):
    pass


def permits(expression: str) -> bool:
    """Return whether a license expression (SPDX) can be satisfied from ALLOWED alone. Raises Malformed."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    value, rest = _alternatives(words)
    if rest:
        raise Malformed(expression)
    return value


def _alternatives(words: list[str]) -> tuple[bool, list[str]]:
    value, words = _together(words)
    while words and words[0] == "OR":
        other, words = _together(words[1:])
        value = value or other
    return value, words


def _together(words: list[str]) -> tuple[bool, list[str]]:
    value, words = _one(words)
    while words and words[0] == "AND":
        other, words = _one(words[1:])
        value = value and other
    return value, words


def _one(words: list[str]) -> tuple[bool, list[str]]:
    if not words or words[0] in (")", "AND", "OR", "WITH"):
        raise Malformed(" ".join(words))
    if words[0] == "(":
        value, words = _alternatives(words[1:])
        if not words or words[0] != ")":
            raise Malformed(" ".join(words))
        return value, words[1:]
    if words[1:2] == ["WITH"] and len(words) > 2:
        return " ".join(words[:3]) in ALLOWED, words[3:]
    return words[0] in ALLOWED, words[1:]


def problem(package: dict[str, Any]) -> str:
    """Return the reason why a package of `cargo metadata` must not be used; "" if there is none."""
    source, expression = package["source"], package["license"]
    if source is not None and not source.startswith("registry+"):
        return f"comes from {source}, not from the package registry"
    if not expression:
        return "names no licence"
    try:
        allowed = permits(expression)
    except Malformed:
        return f'has a licence expression that cannot be read: "{expression}"'
    return "" if allowed else f'is under "{expression}", which is not allowed (scripts/licences.py)'


def packages() -> list[dict[str, Any]]:
    argv = ["cargo", "metadata", "--locked", "--format-version", "1"]
    done = subprocess.run(argv, cwd=NATIVE, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def main() -> int:
    found = packages()
    failed = False
    for package in found:
        if reason := problem(package):
            print(f"{package['name']} {package['version']} {reason}", file=sys.stderr)
            failed = True
    print(f"{len(found)} Rust packages: " + ("see above" if failed else "licences and sources are in order"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
