"""Checks that measurements are comparable: equal responses of all targets, and equal conditions. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from panel.benchmarks.records import Fingerprint, HostFacts, Response, TargetFacts
from panel.benchmarks.suites import links
from panel.core.errors import ApplicationError

_TRAITS = (("status", "status"), ("encoding", "content encoding"), ("type", "content type"), ("sha256", "body"))
# Facts that may differ; any other difference in a host's fingerprint makes two measurements different.
_NAMES = {
    "kernel": "the kernel",
    "boot_id": "the boot ID (new after each restart)",
    "cpu_model": "the CPU model",
    "cpus": "the number of CPUs",
    "cpus_usable": "the number of available CPUs",
    "governor": "the CPU governor",
}


class NotComparable(ApplicationError):
    """Raised if the targets serve different content, because a measurement would then compare content instead of
    servers.
    """


def check_answers(labels: list[str], paths: list[str], answers: list[list[Response]], *, dynamic: bool) -> None:
    """Check that all targets send the same successful responses; raise NotComparable with the first difference.

    `answers` has a list for each target, with one response (agents/host/answers.py) for each of `paths`. Each response
    must have a 2xx status, even if there is only one target: errors and redirects are fast but measure nothing. With
    `dynamic`, the targets need not send the same bodies.
    """
    for label, own in zip(labels, answers, strict=True):
        for path, answer in zip(paths, own, strict=True):
            _require_success(label, path, answer)
    for label, own in zip(labels[1:], answers[1:], strict=True):
        for path, answer, first in zip(paths, own, answers[0], strict=True):
            _require_same(path, (labels[0], first), (label, answer), dynamic=dynamic)


def _require_success(label: str, path: str, answer: Response) -> None:
    if "error" in answer:
        raise NotComparable(
            f"{label} did not respond to {path}: {answer['error']}. Check that the site is deployed and "
            "its web server is running."
        )
    if not 200 <= answer["status"] < 300:
        raise NotComparable(
            f"{label} responds to {path} with status {answer['status']}. Only responses with status 200 "
            "to 299 are measured. Choose another path, or correct the site."
        )


def _require_same(path: str, first: tuple[str, Response], second: tuple[str, Response], *, dynamic: bool) -> None:
    one: Mapping[str, object] = first[1]
    other: Mapping[str, object] = second[1]
    for key, words in _TRAITS:
        if (dynamic and key == "sha256") or one[key] == other[key]:
            continue
        told = " and ".join(f"{label} {_shown(key, answer)}" for label, answer in (first, second))
        advice = (
            "Deploy the same content to both sites, or turn on “Responses differ between requests”."
            if key == "sha256"
            else "Use the same settings for both sites."
        )
        raise NotComparable(
            f"The sites return different responses for {path}, so a comparison would measure the "
            f"content. The {words} differs: {told}. {advice}"
        )


def _shown(key: str, answer: Response) -> str:
    if key == "sha256":
        words = f"sends {answer['bytes']:,} bytes with SHA-256 {answer['sha256'][:12]}…"
        start = " ".join(answer["start"].split()) if answer.get("start") else ""
        return f"{words} that start with “{start}”" if start else words
    values: Mapping[str, object] = answer
    return f"sends {values[key] or 'none'!s}"


def changes(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Describe the differences between two fingerprints in words, for example "the kernel of web1 changed from 6.1 to
    6.2".
    """
    found = []
    for host, old in before["hosts"].items():
        known, seen = _named(old), _named(after["hosts"].get(host, {}))
        for words in dict.fromkeys([*known, *seen]):
            was, now = known.get(words, "none"), seen.get(words, "none")
            if was != now:
                found.append(f"{words} of {host} changed from {was} to {now}")
    if before.get("network") and after.get("network"):
        was, now = (links.carrier(network["measured"]) for network in (before["network"], after["network"]))
        if was != now:
            found.append(f"the link emulation changed from {was} to {now}")
    for old_target, new_target in zip(before["targets"], after["targets"], strict=True):
        found += _target_changes(old_target, new_target)
    return found


def _target_changes(old: TargetFacts, new: TargetFacts) -> list[str]:
    found, label = [], old["label"]
    if old["revision"] != new["revision"]:
        found.append(f"the deployed revision of {label} changed from {old['revision']} to {new['revision']}")
    if old["version"] != new["version"]:
        found.append(f"the web server's version of {label} changed from {old['version']} to {new['version']}")
    if old["revision"] is None and old.get("digest") and old["digest"] != new.get("digest"):
        found.append(f"the configuration of {label} has changed since the run")
    if old["content"] != new["content"]:
        found.append(f"the content of {label} has changed")
    return found


def _named(host: HostFacts) -> dict[str, str]:
    """Return the facts of a host that affect figures, as {name of the fact in words: value}.
    Memory is rounded, because kernels reserve different amounts.
    """
    facts: Mapping[str, object] = host
    found = {words: str(facts[key] or "none") for key, words in _NAMES.items() if key in facts}
    if "memory_bytes" in host:
        found["the memory"] = f"{host['memory_bytes'] / 2**30:.1f} GiB"
    for name, tool in host.get("tools", {}).items():
        found[f"the load tool {name}"] = f"{tool['version']}{' with HTTP/3' if tool.get('h3') else ''}"
    for name, value in host.get("sysctls", {}).items():
        found[f"the network setting {name}"] = " ".join(value.split()) or "none"
    for name, digest in host.get("programs", {}).items():
        found[f"the panel's own {name}"] = f"build {digest[:12]}"
    return found
