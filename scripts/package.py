#!/usr/bin/env python3
"""Build the Debian packages `paddock` and `gallop` below build/ from this checkout.

    package.py [--output FOLDER] [--version VERSION] [paddock] [gallop]

Needs native/target/release (make native), dpkg-deb, and a system Python that can run the locked packages. The same
commit always has the same version; later commits have higher versions.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "packaging"
RELEASE = ROOT / "native" / "target" / "release"
MAINTAINER = "Paddock developers <paddock@localhost>"
SYSTEM_PYTHON = "/usr/bin/python3"
CODE = (
    "panel",
    "agents",
    "templates",
    "static",
    "migrations",
    "manage.py",
    "requirements.txt",
    "LICENSE",
    "docs/guide",
    "docs/images",
)
PROGRAMS = ("gallop", "paddock-netem", "gallop-load")
SCRIPTS = ("postinst", "prerm", "postrm")


class Failed(Exception):
    """Raised if the package cannot be built, with the reason."""


def output_of(*argv: str) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()


def project_version() -> str:
    """Return the version from pyproject.toml with time and hash of the commit: `0.1.0+20261125.225900.abcdef12`."""
    base = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    seconds, commit = output_of("git", "log", "-1", "--format=%ct %h", "--abbrev=8").split()
    when = datetime.fromtimestamp(int(seconds), UTC)
    return f"{base}+{when:%Y%m%d.%H%M%S}.{commit}"


def copy(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def compressed(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))
    target.chmod(0o644)


def versioned(paths: tuple[str, ...]) -> list[str]:
    """Return the files below these paths that git tracks, relative to the root."""
    return [name for name in output_of("git", "ls-files", "-z", *paths).split("\0") if name]


def add_code(tree: Path) -> None:
    """Copy the files of the panel that git tracks into the package's tree; unversioned files are not shipped."""
    home = tree / "usr/lib/paddock/panel"
    for name in output_of("git", "ls-files", "-z", *CODE).split("\0"):
        if not name:
            continue
        target = (
            tree / "usr/share/doc/paddock" / name.removeprefix("docs/") if name.startswith("docs/") else home / name
        )
        copy(ROOT / name, target)


def add_environment(tree: Path) -> None:
    """Create a virtual environment for the system's Python, with the packages of requirements.txt checked by hash."""
    venv = tree / "usr/lib/paddock/venv"
    major, minor = python_version()
    packages = venv / "lib" / f"python{major}.{minor}" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(SYSTEM_PYTHON)
    (venv / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {major}.{minor}\n"
    )
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
        *("--only-binary", ":all:", "--python-version", f"{major}.{minor}", "--require-hashes", "--no-deps"),
        *("--target", str(packages), "-r", str(ROOT / "requirements.txt")),
    )
    shutil.rmtree(packages / "bin", ignore_errors=True)


def add_compiled(tree: Path) -> None:
    """Compile the Python modules, because the panel's account cannot write compiled files there.
    Python does not compare them with their sources again.
    """
    for folder in ("usr/lib/paddock/panel", "usr/lib/paddock/venv/lib"):
        run(
            *(SYSTEM_PYTHON, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(tree), "-p", "/", str(tree / folder)),
            succeeds=False,  # packages carry a few files for other versions of Python
        )


def python_version() -> tuple[int, int]:
    said = output_of(SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2])")
    major, minor = (int(part) for part in said.split())
    if (major, minor) < (3, 11):
        raise Failed(f"{SYSTEM_PYTHON} is Python {major}.{minor}. The panel needs Python 3.11 or newer.")
    return major, minor


def run(*argv: str, succeeds: bool = True) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, cwd=ROOT)
    if succeeds and done.returncode:
        raise Failed(f"{' '.join(argv[:6])} ended with {done.returncode}")


def paddock_tree(tree: Path) -> dict[str, str]:
    """Fill the tree of the package paddock; return the fields of its control file."""
    own = SOURCES / "paddock"
    add_code(tree)
    add_environment(tree)
    add_compiled(tree)
    for name in PROGRAMS:
        copy(RELEASE / name, tree / "usr/lib/paddock/bin" / name, 0o755)
    # settings.py looks for the programs where a checkout has them.
    release = tree / "usr/lib/paddock/panel/native/target"
    release.mkdir(parents=True)
    (release / "release").symlink_to("../../../bin")
    copy(own / "paddock", tree / "usr/bin/paddock", 0o755)
    copy(own / "paddock.env", tree / "etc/paddock/paddock.env", 0o640)
    for unit in sorted([*own.glob("*.service"), *own.glob("*.target")]):
        copy(unit, tree / "lib/systemd/system" / unit.name)
    add_manual(tree, "paddock")
    copy(ROOT / "LICENSE", tree / "usr/share/doc/paddock/copyright")
    (tree / "DEBIAN/conffiles").write_text("/etc/paddock/paddock.env\n")
    major, minor = python_version()
    python = f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})"
    return {
        "Depends": f"{python}, adduser, init-system-helpers, libc6",
        "Recommends": "openssh-client, git",
        "Suggests": "postgresql, redis-server",
        "Section": "admin",
        "Description": "web admin panel for nginx, Apache httpd, OpenLiteSpeed and gallop\n"
        " Paddock plans, tests, deploys, verifies and rolls back the configuration of web\n"
        " servers on many hosts over SSH, and measures them.",
    }


def gallop_tree(tree: Path) -> dict[str, str]:
    """Fill the tree of the package gallop; return the fields of its control file."""
    own = SOURCES / "gallop"
    copy(RELEASE / "gallop", tree / "usr/sbin/gallop", 0o755)
    copy(own / "gallop.service", tree / "lib/systemd/system/gallop.service")
    copy(own / "nginx.conf", tree / "etc/gallop/nginx.conf")
    copy(own / "default.conf", tree / "etc/gallop/conf.d/default.conf")
    copy(own / "logrotate", tree / "etc/logrotate.d/gallop")
    copy(own / "index.html", tree / "usr/share/gallop/html/index.html")
    sys.path.insert(0, str(ROOT))
    from panel.rendering.nginx.types import FASTCGI_PARAMS, MIME_TYPES

    types = "".join(f"    {kind} {' '.join(suffixes)};\n" for kind, suffixes in MIME_TYPES.items())
    (tree / "etc/gallop/mime.types").write_text(f"types {{\n{types}}}\n")
    params = "".join(f"fastcgi_param {name} {value};\n" for name, value in FASTCGI_PARAMS.items())
    (tree / "etc/gallop/fastcgi_params").write_text(params)
    add_manual(tree, "gallop")
    for name in ("COMPATIBILITY.md", "DIRECTIVES.md"):
        copy(ROOT / "native" / name, tree / "usr/share/doc/gallop" / name)
    copy(ROOT / "LICENSE", tree / "usr/share/doc/gallop/copyright")
    configuration = sorted(path for path in (tree / "etc").rglob("*") if path.is_file())
    (tree / "DEBIAN/conffiles").write_text("".join(f"/{path.relative_to(tree)}\n" for path in configuration))
    return {
        "Depends": "init-system-helpers, libc6 (>= 2.36), libgcc-s1",
        "Suggests": "logrotate",
        "Provides": "httpd",
        "Section": "httpd",
        "Description": "web server that reads nginx's configuration\n"
        " gallop serves HTTP/1.1, HTTP/2 and HTTP/3. It reads the configuration files of\n"
        " nginx and obeys its options and signals.",
    }


def add_manual(tree: Path, name: str) -> None:
    own = SOURCES / name
    compressed(own / f"{name}.8", tree / f"usr/share/man/man8/{name}.8.gz")
    copy(own / "completion.bash", tree / f"usr/share/bash-completion/completions/{name}")
    for script in SCRIPTS:
        copy(own / script, tree / "DEBIAN" / script, 0o755)


TREES = {"paddock": paddock_tree, "gallop": gallop_tree}


def build(name: str, version: str, output: Path, compression: str = "xz") -> Path:
    """Build the package `name` in the folder `output`; return its path. `compression` is passed to `dpkg-deb -Z`."""
    missing = [program for program in PROGRAMS if not (RELEASE / program).is_file()]
    if missing:
        raise Failed(f"{RELEASE} lacks {', '.join(missing)}. Run: make native")
    with tempfile.TemporaryDirectory(prefix="paddock-package-") as folder:
        tree = Path(folder) / name
        (tree / "DEBIAN").mkdir(parents=True)
        tree.chmod(0o755)
        fields = TREES[name](tree)
        for path in tree.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
        head = {"Package": name, "Version": version, "Architecture": output_of("dpkg", "--print-architecture")}
        control = {**head, "Maintainer": MAINTAINER, "Installed-Size": str(size), "Priority": "optional", **fields}
        (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
        output.mkdir(parents=True, exist_ok=True)
        package = output / f"{name}_{version}_{head['Architecture']}.deb"
        os.environ["SOURCE_DATE_EPOCH"] = output_of("git", "log", "-1", "--format=%ct")
        run("dpkg-deb", "--root-owner-group", f"-Z{compression}", "--build", str(tree), str(package))
        return package


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Debian packages.")
    parser.add_argument("names", nargs="*", metavar="PACKAGE", help="paddock, gallop (default: both)")
    parser.add_argument("--output", type=Path, default=ROOT / "build")
    parser.add_argument("--version", help="instead of the version and time of the commit")
    parser.add_argument("--compression", default="xz", choices=["xz", "gzip", "none"], help="default: xz")
    options = parser.parse_args()
    version = options.version or project_version()
    if not re.fullmatch(r"[0-9][A-Za-z0-9.+~]*", version):
        parser.error(f"{version} is not a version of a Debian package")
    unknown = [name for name in options.names if name not in TREES]
    if unknown:
        parser.error(f"there is no package {unknown[0]}; there are {', '.join(TREES)}")
    if shutil.which("dpkg-deb") is None:
        parser.error("dpkg-deb is missing. Build the packages on Debian.")
    try:
        for name in options.names or list(TREES):
            print(build(name, version, options.output, options.compression))
    except Failed as error:
        print(f"package.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
