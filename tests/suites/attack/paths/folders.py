"""The folders of two teams on one host, and the canaries in everything that is not the attacking team's."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

PASSWD = b"root:x:0:0:"  # how /etc/passwd begins
SECRET = "secret.txt"


@dataclass(frozen=True)
class Folders:
    """`root` is the host's folder for sites; the attacker's are `mine`, below it. Names of files that hold the
    canary's word appear only where a server lists a folder."""

    root: Path
    word: str

    @property
    def mine(self) -> Path:
        return self.root / "alpha"

    def canary(self, answer: bytes) -> bool:
        """Whether an answer shows something that is not the attacking team's."""
        return self.word.encode() in answer or PASSWD in answer


def laid_out(home: Path) -> Folders:
    """Below `home`: sites/alpha of the attacker; sites/beta and sites/alphabet of another team; files beside them."""
    root, word = home / "sites", f"canary{secrets.token_hex(8)}"
    own = {"index.html": "own", "a.txt": "own a", "files/b.txt": "own b", "files/x/c.txt": "own c", "404.html": "none"}
    for name, text in own.items():
        _write(root / "alpha" / name, text)
    for folder in (root / "beta", root / "alphabet", root / "alpha2", root, home):
        for name in (SECRET, "index.html", f"{word}.txt", "a.txt", "index.php"):
            _write(folder / name, word)
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Folders(root, word)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
