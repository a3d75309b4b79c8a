"""Find access rules that admit everybody, or that no server evaluates."""

from __future__ import annotations

from collections.abc import Iterator

from panel.rendering.lint.finding import Finding, setting
from panel.rendering.readers import Read
from panel.rendering.spec import Location

HERE_ONLY = [{"action": "allow", "source": source} for source in ("127.0.0.1", "::1")]
NOBODY = {"action": "deny", "source": "all"}


def of_location(location: Location, where: str) -> Iterator[Finding]:
    if location.handler == "return":
        yield from _never_asked(location, where)
    else:
        yield from _lets_all_in(location, where)


def _lets_all_in(location: Location, where: str) -> Iterator[Finding]:
    rules = location.access_rules
    if not rules or any(rule.action == "deny" for rule in rules) or any(rule.source == "all" for rule in rules):
        return
    yield Finding(
        "allow-without-deny",
        where,
        f"The location {location.pattern} allows {', '.join(rule.source for rule in rules)}, and everybody else too.",
        "Addresses without a matching rule have access. An allow rule has no effect without a final "
        "rule that denies all.",
        "Add a final rule: deny all",
        setting(where, access_rules=[*_rows(location), NOBODY]),
    )


def _rows(location: Location) -> list[dict[str, object]]:
    return [{"action": rule.action, "source": rule.source} for rule in location.access_rules]


def _never_asked(location: Location, where: str) -> Iterator[Finding]:
    asked = ["access rules"] * bool(location.access_rules) + ["password"] * bool(location.basic_auth)
    if not asked:
        return
    yield Finding(
        "return-ignores-access",
        where,
        f"The location {location.pattern} responds with {location.return_code} before it checks its "
        f"{' and '.join(asked)}.",
        "Everybody receives a fixed response because rewriting precedes access control. Do not put protected "
        "content into the response.",
        "Remove the access rules and the password, which have no effect",
        setting(where, access_rules=[], basic_auth_realm="", basic_auth_users=[]),
    )


def status_shown(location: Location, where: str, items: tuple[Read, ...]) -> Iterator[Finding]:
    """Yield a finding for a status page (stub_status) without access rules. `items`: the location's raw nginx
    directives.
    """
    if location.access_rules or location.basic_auth or location.handler == "deny":
        return
    own = {"allow", "deny", "auth_basic", "auth_request"}
    names = {item.name for item in items}
    if "stub_status" in names and not names & own:
        yield Finding(
            "status-exposed",
            where,
            f"The location {location.pattern} shows the load of the web server to everybody (stub_status).",
            "The numbers of connections and requests show attackers the effect of an attack.",
            "Allow only this host",
            setting(where, access_rules=[*HERE_ONLY, NOBODY]),
        )
