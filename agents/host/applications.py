"""Predefined applications of test beds: find the required packages, and install them on request.

Package names are defined only here: the panel requests an application, not a package. A first request lists the
packages; a second one installs exactly these.
"""

from __future__ import annotations

import glob
import os
import re
import threading
from typing import Any, Dict, List

from agents.host import commands
from agents.host.errors import Refusal
from agents.host.operations import Emit

# PHP and php-fpm are named explicitly, so that apt does not choose Apache's PHP module as WordPress's PHP; of MariaDB
# only the program, without a service.
PACKAGES = {"wordpress": ("wordpress", "mariadb-server-core", "php", "php-cli", "php-fpm", "php-mysql")}
SOURCE = "/usr/share/wordpress"
_TABLES = ("/usr/share/mysql/mysql_system_tables.sql", "/usr/share/mariadb/mysql_system_tables.sql")
_PHP_MODULES = ("/usr/lib/php/*/mysqli.so", "/usr/lib64/php/modules/mysqli.so", "/usr/lib/php/modules/mysqli.so")
# A recommended package that is in fact required: WordPress displays nothing without a theme.
_NEEDED = re.compile(r"wordpress-theme-[a-z0-9]+\Z")
_NEW = re.compile(r"Inst (\S+) (?:\[(\S+)\] )?\((\S+) ")
_GONE = re.compile(r"Remv (\S+)")
_FETCHED = re.compile(r"'[^']*' \S+ ([0-9]+)(?: |$)")
_UPDATE_S, _INSTALL_S = 180.0, 1500.0
OPTIONS: List[str] = []  # additional apt options, for tests with their own distribution


def version() -> str:
    """Return the version of the distribution's WordPress; "" if WordPress or one of its requirements is missing, "?" if
    the version cannot be read.
    """
    if missing():
        return ""
    with open(os.path.join(SOURCE, "wp-includes", "version.php"), encoding="utf-8", errors="replace") as file:
        found = [line.split("'")[1] for line in file if line.startswith("$wp_version = '")]
    return found[0] if found else "?"


def missing() -> List[str]:
    """Return the requirements of a test bed with WordPress that this host lacks, for example ["MariaDB"]."""
    found = [] if os.path.isfile(os.path.join(SOURCE, "wp-load.php")) else ["WordPress"]
    if not glob.glob(SOURCE + "/wp-content/themes/*/style.css"):
        found.append("a theme of WordPress")
    if not database() or not tables():
        found.append("MariaDB")
    if not commands.find("php"):
        found.append("PHP for the command line")
    if not any(glob.glob(pattern) for pattern in _PHP_MODULES):
        found.append("PHP's module for MySQL")
    return found


def database() -> str:
    """Return the path of MariaDB's server program; "" if there is none."""
    return commands.find("mariadbd") or commands.find("mysqld")


def tables() -> str:
    return next((path for path in _TABLES if os.path.isfile(path)), "")


def run(args: Dict[str, Any], emit: Emit, cancelled: threading.Event) -> Dict[str, Any]:
    """List or install the packages of an application.

    {"name", "action": plan | install, "plan": result of a plan} -> {"packages": [{"name", "version", "was"}],
    "removed": [names], "bytes": download size, "command": argv of apt-get}. "packages" are those to install or upgrade,
    "removed" those to remove; after `install`, this has been done. "packages" is empty if everything is installed.
    `install` takes `plan` as {"packages", "removed"}, and refuses (`drift`) if a new plan would be different.
    """
    wanted = PACKAGES.get(str(args.get("name")))
    if wanted is None:
        raise Refusal("invalid", "an application is one of %s" % ", ".join(PACKAGES))
    if args.get("action") not in ("plan", "install"):
        raise Refusal("invalid", "action is plan or install")
    missing = [name for name in wanted if not _version(name)] + _theme(wanted)
    if not missing:
        return {"packages": [], "removed": [], "bytes": 0, "command": []}
    if not commands.find("apt-get"):
        raise Refusal(
            "missing",
            "this host has no apt-get; install %s by hand from the packages of your distribution" % ", ".join(wanted),
        )
    if os.geteuid() != 0:
        raise Refusal("refused", "installing packages needs root; let the agent run as root or by sudo")
    found = _plan(missing)
    if args["action"] == "install":
        asked = args.get("plan")
        if not isinstance(asked, dict) or any(asked.get(part) != found[part] for part in ("packages", "removed")):
            raise Refusal("drift", "the packages to install have changed since the plan was shown; make a new plan")
        if found["removed"]:
            raise Refusal(
                "refused", "apt-get would remove the packages %s; nothing was changed" % ", ".join(found["removed"])
            )
        emit({"state": "installing", "packages": len(found["packages"])})
        _apt(["install", "--yes", "--no-remove", *missing], _INSTALL_S)
    return found


def _plan(missing: List[str]) -> Dict[str, Any]:
    _apt(["update"], _UPDATE_S)
    missing += [name for name in _theme(missing) if name not in missing]
    said = _apt(["install", "--simulate", *missing], 60.0)
    news = [_NEW.match(line) for line in said.splitlines()]
    gone = [_GONE.match(line) for line in said.splitlines()]
    uris = _apt(["install", "--print-uris", "--yes", "-qq", *missing], 60.0)
    sizes = [_FETCHED.match(line) for line in uris.splitlines()]
    return {
        "packages": [{"name": m.group(1), "version": m.group(3), "was": m.group(2) or ""} for m in news if m],
        "removed": [m.group(1) for m in gone if m],
        "bytes": sum(int(m.group(1)) for m in sizes if m),
        "command": _argv(["install", "--yes", "--no-remove", *missing]),
    }


def _argv(words: List[str]) -> List[str]:
    recommends = ["--no-install-recommends"] if words[0] == "install" else []
    return ["apt-get", "-o", "DPkg::Lock::Timeout=120", *OPTIONS, *words[:1], *recommends, *words[1:]]


def _apt(words: List[str], seconds: float) -> str:
    """Run apt-get and return its output; raise Refusal with that output if it failed."""
    # Packages' questions get their default answer; needrestart neither asks nor restarts services.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C"}
    done = commands.run(_argv(words), quiet, timeout_s=seconds)
    if done.exit_code != 0:
        raise Refusal("failed", "apt-get %s failed:\n%s" % (words[0], done.output[-3000:]))
    return done.output


def _version(package: str) -> str:
    """Return the installed version of a Debian package; "" if the package is not completely installed."""
    query = ["dpkg-query", *_admin(), "--show", "--showformat=${db:Status-Status} ${Version}", package]
    status, _, version = commands.run(query).output.partition(" ")
    return version if status == "installed" else ""


def _admin() -> List[str]:
    """Return a list with dpkg's option --admindir, for the folder that OPTIONS set as apt's package database; [] if
    OPTIONS set none.
    """
    prefix = "Dir::State::status="
    return ["--admindir=" + os.path.dirname(text[len(prefix) :]) for text in OPTIONS if text.startswith(prefix)]


def _theme(packages: Any) -> List[str]:
    """Return a list with the first theme that Debian's package wordpress recommends; [] if `packages` lacks
    wordpress, or if a recommended theme is already installed.
    """
    if "wordpress" not in packages:
        return []
    shown = commands.run(["apt-cache", *OPTIONS, "depends", "wordpress"]).output
    names = [line.split(":", 1)[1].strip() for line in shown.splitlines() if line.strip().startswith("Recommends:")]
    themes = [name for name in names if _NEEDED.match(name)]
    return [] if any(_version(name) for name in themes) else themes[:1]
