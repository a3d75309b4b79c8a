"""Download and unpack, by the registries' own clients; what has another SHA-256 than pinned is refused."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.corpora.pins import Corpus


def fetched(corpus: Corpus, folder: Path) -> Path:
    """The root of the unpacked package, below `folder`."""
    folder.mkdir(parents=True)
    _run(_download(corpus), folder)
    (archive,) = [path for path in folder.iterdir() if path.is_file()]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != corpus.sha256:
        raise SystemExit(f"{archive.name} has the SHA-256 {digest}, not {corpus.sha256}; nothing of it is read.")
    root = folder / "root"
    root.mkdir()
    if corpus.source == "pypi":
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
    else:
        _run(["dpkg-deb", "--extract", str(archive), str(root)], folder)
    return root


def _download(corpus: Corpus) -> list[str]:
    if corpus.source == "pypi":
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        return [*pip, "--no-deps", "--no-binary", ":all:", f"{corpus.package}=={corpus.version}"]
    return ["apt-get", "download", "--quiet", f"{corpus.package}={corpus.version}"]


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
