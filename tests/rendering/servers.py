"""Asking the real servers whether they take what was rendered."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

from panel.rendering.spec import RenderedFile, SiteSpec, from_json, to_json


def write_files(files: list[RenderedFile], root: Path) -> None:
    """Lays `files` out; every one must lie below `root`."""
    for file in files:
        path = Path(file.path)
        assert path.is_relative_to(root), path
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.link_target:
            path.unlink(missing_ok=True)
            path.symlink_to(file.link_target)
        else:
            path.write_text(file.text)


def relocated(spec: SiteSpec, root: Path) -> SiteSpec:
    """The same site with its password, certificate and log files below `root`, where they can exist."""
    text = json.dumps(to_json(spec))
    for folder in ("/etc/paddock", "/var/log", "/srv"):
        text = text.replace(f'"{folder}/', f'"{root}{folder}/')
    return from_json(SiteSpec, json.loads(text))


@cache
def _pem() -> tuple[str, str]:
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    argv += ["-subj", "/CN=localhost", "-days", "2", "-keyout", "/dev/stdout", "-out", "/dev/stdout"]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    key, certificate = text.split("-----BEGIN CERTIFICATE-----")
    return key, "-----BEGIN CERTIFICATE-----" + certificate


def write_certificates(spec: SiteSpec) -> None:
    """A self-signed certificate at every path the site names."""
    key, certificate = _pem()
    for block in spec.blocks:
        if block.tls is not None:
            for name, text in ((block.tls.key_path, key), (block.tls.certificate_path, certificate)):
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_text(text)
