"""Download and unpack, by the registries' own clients; what has another SHA-256 than pinned is refused."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.suites.corpora.pins import Corpus


def fetched(corpus: Corpus, folder: Path) -> tuple[Path, str]:
    """The root of the unpacked package, below `folder`, and its version.

    Debian's mirrors drop a version when a security update takes its place. That one is measured then, under its own
    version; apt itself holds it to the distribution's signature.
    """
    folder.mkdir(parents=True)
    version = corpus.version if corpus.source == "pypi" else _offered(corpus)
    _run(_download(corpus, version), folder)
    (archive,) = [path for path in folder.iterdir() if path.is_file()]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if version == corpus.version and digest != corpus.sha256:
        raise SystemExit(f"{archive.name} has the SHA-256 {digest}, not {corpus.sha256}; nothing of it is read.")
    root = folder / "root"
    root.mkdir()
    if corpus.source == "pypi":
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
    else:
        _run(["dpkg-deb", "--extract", str(archive), str(root)], folder)
    return root, version


def _offered(corpus: Corpus) -> str:
    """The pinned version where the mirrors still have it, else the newest."""
    lines = _run(["apt-cache", "madison", corpus.package]).splitlines()
    versions = [line.split("|")[1].strip() for line in lines if line.count("|") >= 2]
    return corpus.version if corpus.version in versions or not versions else versions[0]


def _download(corpus: Corpus, version: str) -> list[str]:
    if corpus.source == "pypi":
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        return [*pip, "--no-deps", "--no-binary", ":all:", f"{corpus.package}=={corpus.version}"]
    return ["apt-get", "download", "--quiet", f"{corpus.package}={version}"]


def _run(argv: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
