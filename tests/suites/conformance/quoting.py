"""Hostile values in bulk.

`python -m tests.suites.conformance.quoting [--values N] [--engines nginx,apache] [--fields a,b]`

For each field of a site and each engine, N generated values: refused by name, or written so that the server's grammar
reads exactly that value and nothing else. Read back by the exact readers, by crossplane (nginx, gallop), by
OpenLiteSpeed itself where PADDOCK_OPENLITESPEED names one, and tested by the servers themselves in batches. Closes with
one line; ends with 1 when a value escaped or anything crashed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from panel.rendering.readers import Unreadable
from tests.rendering.crossplane_reader import disagreement
from tests.rendering.escaping import WEB_SERVERS, fault, written_or_refused
from tests.rendering.hostile import FIELDS, MARKS
from tests.suites.conformance.compare import Outcome
from tests.suites.conformance.progress import Progress, digest
from tests.suites.conformance.readback import read_back
from tests.suites.conformance.selftest import SERVERS, refused_by_server
from tests.support.openlitespeed import VARIABLE, source

BATCH = 250  # sites in one file
CLEAN = [mark for mark in MARKS if mark.isprintable()]
# Letters of every width in UTF-8, controls, and half of a surrogate pair, which JSON can carry.
SINGLE = [*map(chr, range(1, 256)), "Ω", "—", "漢", "\U0001f600", "\ud800", "\ufeff", "\u2029"]
REFUSED, TAKEN = "refused at the field", "written and read back"
READ_BY_SERVER = "read back by the real OpenLiteSpeed"


def values(field: str, count: int, chance: int) -> Iterator[str]:
    """`count` different values; half of them without control characters, which every field refuses."""
    source = random.Random(f"{chance} {field}")
    seen: set[str] = set()
    while len(seen) < count:
        marks = CLEAN if source.random() < 0.5 else MARKS
        pieces = [_piece(source, marks) for _ in range(source.randint(1, 8))]
        value = "".join(pieces)
        if value not in seen:
            seen.add(value)
            yield value


def _piece(source: random.Random, marks: list[str]) -> str:
    if source.random() < 0.8 or marks is CLEAN:
        return source.choice(marks)
    return "".join(source.choice(SINGLE) for _ in range(source.randint(1, 3)))


def run(engine: str, field: str, count: int, chance: int) -> Outcome:
    """All values of one field on one engine. `known` counts what became of them."""
    found = Outcome(count)
    batch: list[tuple[str, list[str]]] = []
    for value in values(field, count, chance):
        try:
            written = written_or_refused(engine, field, value)
            problem = "" if written is None else fault(engine, field, value, written)
        except (Unreadable, Exception) as error:
            found.unexplained.append(f"{engine}, {field} {value!r}: {type(error).__name__}: {error}")
            continue
        if problem:
            found.unexplained.append(problem)
        elif written is None:
            found.known[REFUSED] += 1
        else:
            found.known[TAKEN] += 1
            batch.append((value, written))
        if len(batch) == BATCH:
            _test(engine, field, batch, found)
            batch = []
    _test(engine, field, batch, found)
    return found


def _test(engine: str, field: str, batch: list[tuple[str, list[str]]], found: Outcome) -> None:
    if not batch:
        return
    if engine in ("nginx", "gallop"):
        found.unexplained += [f"{engine}, {field}: {what}" for what in disagreement(batch)]
    if engine == "openlitespeed" and source() is not None:
        found.unexplained += [f"{engine}, {field}: {what}" for what in read_back(batch)]
        found.known[READ_BY_SERVER] += len(batch)
    if engine in SERVERS:
        reasons, escapes = refused_by_server(engine, field, batch)
        found.known.update({f"refused by the server's own test, {why}": count for why, count in reasons.items()})
        found.unexplained += [f"{engine}, {field}: {what}" for what in escapes]


def line(engines: list[str], fields: list[str], count: int, found: Outcome) -> str:
    totals: Counter[str] = found.known
    return (
        f"{', '.join(engines)}: {len(fields)} fields x {count} values each, {found.compared} values, "
        f"{totals[REFUSED]} refused at the field, {totals[TAKEN]} written and read back, "
        f"{len(found.unexplained)} escapes or crashes"
    )


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.conformance.quoting")
    parser.add_argument("--values", type=int, default=20_000, help="for each field and engine")
    parser.add_argument("--engines", default=",".join(WEB_SERVERS))
    parser.add_argument("--fields", default=",".join(FIELDS))
    parser.add_argument("--chance", type=int, default=1, help="another number makes other values")
    parser.add_argument("--keep", type=Path, help="a file for what was done; a later call goes on there")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many")
    options = parser.parse_args(given)
    engines, fields = options.engines.split(","), options.fields.split(",")
    progress = Progress(options.keep, digest("quoting", str(options.values), str(options.chance)))
    until = time.monotonic() + options.minutes * 60 if options.minutes else None
    for engine in engines:
        for field in fields:
            if progress.done(name := f"{engine}: {field}"):
                continue
            if until is not None and time.monotonic() > until:
                print("not everything yet; the same command goes on")
                return 2
            progress.add(name, run(engine, field, options.values, options.chance))
            part = progress.parts[name]
            print(f"  {name}: {dict(part.known)}, {len(part.unexplained)} escapes or crashes", flush=True)
    found = progress.whole()
    for item in found.unexplained[:100]:
        print(f"ESCAPE {item}")
    for reason, count in sorted(found.known.items()):
        print(f"  {count:8} {reason}")
    if "openlitespeed" in engines and source() is None:
        print(f"OpenLiteSpeed: by its exact reader alone; {VARIABLE} names no server that could read it, too")
    print(f"\n{line(engines, fields, options.values, found)}")
    return 1 if found.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
