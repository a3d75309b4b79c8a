"""Manage the PHP-FPM pools that Paddock creates for sites, in the layout of Debian and Ubuntu.

Each pool has a file of its own in /etc/php/VERSION/fpm/pool.d. Other files there are never changed. Before a pool's
file is used, it is tested together with all others. If php-fpm does not serve the pool afterwards, the former state is
restored.
"""

from __future__ import annotations

import glob
import grp
import hashlib
import os
import re
import signal
import stat
import threading
import time
from typing import Any, Dict, List, Optional

from agents.host import commands, detect, fastcgi, fpm_accounts, fpm_temporary, prerequisites, processes, safe, state
from agents.host.errors import Refusal
from agents.host.operations import Emit

FOLDER = "/etc/php"
SOCKETS = "/run/php"
PING = "/paddock-ping"
_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
_NAME = re.compile(r"paddock-[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LINE = re.compile(r'([a-z_.]+(?:\[[a-z_]+\])?) = ("?)([A-Za-z0-9._:/-]+)\2')
# Directives of a pool that the panel writes; all others are refused.
_DIRECTIVES = frozenset(
    {
        *("user", "listen", "listen.owner", "listen.group", "listen.mode"),
        *("pm", "pm.max_children", "pm.process_idle_timeout", "pm.max_requests", "ping.path", "ping.response"),
        *("php_admin_value[open_basedir]", "php_admin_value[memory_limit]"),
        *("php_admin_value[upload_max_filesize]", "php_admin_value[post_max_size]"),
        *("php_admin_value[sys_temp_dir]", "php_admin_value[upload_tmp_dir]"),
    }
)
_MAX_TEXT, _MAX_POOLS = 16 * 1024, 2000
_TEST_S, _START_S, _ENDED_S = 20.0, 10.0, 3.0
_LISTENS = 0x10000  # __SO_ACCEPTCON in /proc/net/unix


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Look at, test, write or remove PHP-FPM pools.

    {"action": "look", "pools": [{"version", "name"}], "pid_file", "accounts": bool} -> {"versions": [{"version",
    "running"}], "accounts": [names that a pool can run as, if requested], "server": {"user", "group"} of the web server
    with this pid file, {} if it does not run, "pools": {name: {"digest": SHA-256 of its file, "" for none,
    "listens"}}}.

    {"action": "test" | "put" | "remove", "version", "name", "account", "text", "expected": [digests]} -> {"output",
    "digest"}. `test` tests the pool's file, `put` tests and then uses it, `remove` removes it. Refusal (`drift`) if the
    existing file has none of the digests; without "expected" any file is replaced.
    """
    action = args.get("action")
    if action == "look":
        return _look(args)
    if action not in ("test", "put", "remove"):
        raise Refusal("invalid", "action is look, test, put or remove")
    pool = Pool(args.get("version"), args.get("name"))
    text = b"" if action == "remove" else _text_of(args, pool)
    expected = args.get("expected")
    if expected is not None and not (isinstance(expected, list) and all(isinstance(item, str) for item in expected)):
        raise Refusal("invalid", "expected is a list of digests")
    if os.geteuid() != 0:
        raise Refusal("refused", "PHP-FPM pools need root; let the agent run as root or with sudo")
    with state.HostLock():
        former = pool.content()
        _require_unchanged(pool, former, text, expected)
        if not text and former is None and pool.socket not in _listening():
            fpm_temporary.remove(pool.name)
            return {"output": "", "digest": ""}
        output = _tested(pool, text)
        if action != "test":
            _used(pool, text, former)
        return {"output": output, "digest": _digest(pool.content())}


class Pool:
    """One PHP-FPM pool: its name, its version of PHP, and the paths of its file, its socket, and the php-fpm
    program.
    """

    def __init__(self, version: object, name: object) -> None:
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise Refusal("invalid", "version is a PHP version, for example 8.2")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Refusal("invalid", "name is paddock- and a name of lowercase letters, digits and hyphens")
        self.version, self.name = version, name
        self.program = "php-fpm" + version
        self.main = os.path.join(FOLDER, version, "fpm", "php-fpm.conf")
        self.folder = os.path.join(FOLDER, version, "fpm", "pool.d")
        self.file = name + ".conf"
        self.path = os.path.join(self.folder, self.file)
        self.socket = os.path.join(SOCKETS, name + ".sock")

    def content(self) -> Optional[bytes]:
        """Return the content of the pool's file; None without a file. Raise Refusal if it is not a regular file."""
        try:
            folder = os.open(safe.true_path(self.folder), safe.FOLDER)
        except FileNotFoundError:
            return None
        try:
            if stat.S_ISLNK(os.lstat(self.file, dir_fd=folder).st_mode):
                raise Refusal("refused", "%s is a symbolic link; remove the link" % self.path, path=self.path)
            descriptor = safe.open_regular(self.file, folder, self.path)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)
        try:
            return safe.content(descriptor, _MAX_TEXT)
        finally:
            os.close(descriptor)

    def master(self) -> int:
        """Return the pid of the main process of php-fpm in the pool's version; 0 if it does not run.

        The pid file may be in a folder of another account. So the process counts only if it belongs to root, runs the
        program `program`, and uses the main file `main`.
        """
        found = re.search(r"^\s*pid\s*=\s*(/\S+)", _text(self.main), re.MULTILINE)
        pid = processes.pid_in(found.group(1) if found else "%s/%s.pid" % (SOCKETS, self.program), believed=False)
        try:
            is_root = bool(pid) and os.stat("/proc/%d" % pid).st_uid == 0
        except OSError:
            return 0
        runs = is_root and processes.program(pid) == self.program
        return pid if runs and "(%s)" % self.main in processes.title(pid) else 0


def _text(path: str) -> str:
    return processes.read(path).decode("utf-8", "replace")


def _digest(content: Optional[bytes]) -> str:
    return hashlib.sha256(content).hexdigest() if content is not None else ""


def _look(args: dict[str, Any]) -> dict[str, Any]:
    pools = args.get("pools", [])
    if not isinstance(pools, list) or len(pools) > _MAX_POOLS or not all(isinstance(item, dict) for item in pools):
        raise Refusal("invalid", "pools is a list of at most %d pools" % _MAX_POOLS)
    listening = _listening()
    found: Dict[str, Dict[str, Any]] = {}
    for item in pools:
        pool = Pool(item.get("version"), item.get("name"))
        try:
            digest = _digest(pool.content())
        except Refusal:  # a link, or a folder of another account: not the file that Paddock wrote
            digest = "refused"
        found[pool.name] = {"digest": digest, "listens": pool.socket in listening}
    pid_file = args.get("pid_file")
    return {
        "versions": _versions(),
        "accounts": fpm_accounts.usable() if args.get("accounts") is True else [],
        "server": _server_account(pid_file) if isinstance(pid_file, str) and pid_file else {},
        "pools": found,
    }


def _versions() -> List[Dict[str, Any]]:
    """Return the installed versions of PHP-FPM, newest first: [{"version", "running"}]."""
    names = [path.split("/")[-3] for path in glob.glob(os.path.join(FOLDER, "*", "fpm", "pool.d"))]
    names = [name for name in names if _VERSION.fullmatch(name) and commands.find("php-fpm" + name)]
    names.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    return [{"version": name, "running": bool(Pool(name, "paddock-x").master())} for name in names]


def _server_account(pid_file: str) -> Dict[str, str]:
    account = prerequisites.account_of(pid_file)
    if account is None:
        return {}
    try:
        return {"user": account["name"], "group": grp.getgrgid(int(account["gid"])).gr_name}
    except KeyError:
        return {}


def _listening() -> "set[str]":
    """Return the paths of all Unix sockets on which a process listens. They are read from /proc, because a test
    connection would make php-fpm start a process.
    """
    found = set()
    for line in _text("/proc/net/unix").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8 and int(fields[3], 16) & _LISTENS:
            found.add(fields[7])
    return found


def _text_of(args: dict[str, Any], pool: Pool) -> bytes:
    """Return the content of the pool's file, as in the request. Raise Refusal unless it is one pool of the requested
    name, account and socket, with known directives only.
    """
    text, account = args.get("text"), args.get("account")
    if not isinstance(text, str) or len(text) > _MAX_TEXT or not isinstance(account, str):
        raise Refusal("invalid", "test and put take the text of the pool's file, and its account")
    lines = [line for line in text.split("\n") if line and not line.startswith(";")]
    values: Dict[str, str] = {}
    if lines[:1] != ["[%s]" % pool.name]:
        raise Refusal("invalid", "the file begins with [%s]" % pool.name)
    for line in lines[1:]:
        match = _LINE.fullmatch(line)
        if match is None or match.group(1) not in _DIRECTIVES or match.group(1) in values:
            raise Refusal("invalid", "the file of a pool has a line that Paddock does not write")
        values[match.group(1)] = match.group(3)
    wanted = {"user": account, "listen": pool.socket, "listen.mode": "0660", "ping.path": PING}
    if any(values.get(name) != value for name, value in wanted.items()) or "ping.response" not in values:
        raise Refusal("invalid", "the pool has another account or socket than the request")
    if "php_admin_value[open_basedir]" not in values:
        raise Refusal("invalid", "the pool has no open_basedir")
    fpm_accounts.require_usable(account)
    return text.encode("utf-8")


def _require_unchanged(pool: Pool, former: Optional[bytes], text: bytes, expected: Optional[List[str]]) -> None:
    found = _digest(former)
    wanted = _digest(text or None)
    if expected is not None and found not in (*expected, wanted):
        raise Refusal("drift", "%s was edited on the host" % pool.path, path=pool.path, found=found)


def _tested(pool: Pool, text: bytes) -> str:
    """Test all pools with php-fpm's own test, on private copies in which one pool has the file `text`; return the
    output. If `text` is empty, the copies lack this pool. Raise Refusal if php-fpm rejects the files.
    """
    if not commands.find(pool.program):
        if text:
            raise Refusal("missing", "%s is not installed. On Debian: apt-get install php-fpm" % pool.program)
        return ""
    main = _text(pool.main)
    includes = re.compile(r"^(\s*include\s*=\s*)%s/\*\.conf\s*$" % re.escape(pool.folder), re.MULTILINE)
    if not includes.search(main):
        raise Refusal("refused", "%s does not include %s/*.conf" % (pool.main, pool.folder), path=pool.main)
    path, folder = safe.new_private_folder("paddock-fpm-")
    try:
        pools = safe.new_folder("pool.d", folder, 0o700)
        try:
            for name in sorted(os.listdir(safe.true_path(pool.folder))):
                if name.endswith(".conf") and not name.startswith(".") and name != pool.file:
                    os.symlink(os.path.join(pool.folder, name), name, dir_fd=pools)
            if text:
                safe.write_new(pool.file, pools, text, 0o600)
        finally:
            os.close(pools)
        changed = includes.sub(lambda found: "%s%s/pool.d/*.conf" % (found.group(1), path), main)
        safe.write_new("php-fpm.conf", folder, changed.encode("utf-8"), 0o600)
        done = commands.run([pool.program, "--test", "--fpm-config", path + "/php-fpm.conf"], timeout_s=_TEST_S)
    finally:
        os.close(folder)
        safe.discard(path)
    if done.exit_code == 0:
        return done.output
    if not text and "No pool defined" in done.output:
        words = "%s is the last pool of %s, which does not start without a pool. Add another pool to %s first."
        raise Refusal("refused", words % (pool.name, pool.program, pool.folder), path=pool.path)
    raise Refusal(
        "refused", "%s rejects the configuration (exit code %d):\n%s" % (pool.program, done.exit_code, done.output)
    )


def _used(pool: Pool, text: bytes, former: Optional[bytes]) -> None:
    """Write the pool's file and create its folder for temporary files, or remove both if `text` is empty. Then reload
    php-fpm. If php-fpm does not serve the pool as wanted, restore the former state and raise Refusal.
    """
    if text:
        _provide_temporary(pool, text)
    try:
        _changed(pool, text, former)
    except Refusal:
        _provide_temporary(pool, former)
        raise
    if not text:
        fpm_temporary.remove(pool.name)


def _provide_temporary(pool: Pool, content: Optional[bytes]) -> None:
    found = re.search(rb"^user = ([a-z_][a-z0-9_-]*)$", content or b"", re.MULTILINE)
    if found is None:  # no file, or one that was written by hand
        fpm_temporary.remove(pool.name)
    else:
        fpm_temporary.provide(pool.name, found.group(1).decode("ascii"))


def _changed(pool: Pool, text: bytes, former: Optional[bytes]) -> None:
    """Write the pool's file, or remove it if `text` is empty, and reload php-fpm. If the reload fails, restore the
    former file and raise Refusal.
    """
    master = pool.master()
    if text and not master:
        words = "%s is not running. Start php-fpm with systemctl start %s, then apply the pool again"
        raise Refusal("refused", words % (pool.program, _unit(pool)))
    folder = os.open(safe.true_path(pool.folder), safe.FOLDER)
    try:
        _write(folder, pool, text or None)
        if not master:
            return
        try:
            _reload(pool, text or None)
        except Refusal as error:
            _write(folder, pool, former)
            raise Refusal(error.code, "%s %s" % (error.message, _undone(pool, former))) from None
    finally:
        os.close(folder)


def _write(folder: int, pool: Pool, content: Optional[bytes]) -> None:
    draft = ".%s.paddock" % pool.file
    for name in (draft,) if content is not None else (draft, pool.file):
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            continue
    if content is not None:
        safe.write_new(draft, folder, content, 0o644)
        os.rename(draft, pool.file, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _reload(pool: Pool, content: Optional[bytes]) -> None:
    """Reload php-fpm and wait until the pool has the settings in `content`, or is gone if `content` is None. Raise
    Refusal if php-fpm ends, or if the time limit is reached.
    """
    master = pool.master()
    if not master:
        raise Refusal("failed", "%s ended." % pool.program)
    os.kill(master, signal.SIGUSR2)
    alive = time.monotonic()
    deadline, problem = alive + _START_S, ""
    while time.monotonic() < deadline:
        time.sleep(0.1)
        # As a daemon of its own, without systemd, it becomes another process, and is unknown for a moment.
        if processes.exists(master) or pool.master():
            alive = time.monotonic()
        elif time.monotonic() - alive > _ENDED_S:
            raise Refusal("failed", "%s ended during the reload of its configuration." % pool.program)
        problem = _problem(pool, content)
        if not problem:
            return
    raise Refusal("failed", "%s did not load its new configuration: %s." % (pool.program, problem))


def _problem(pool: Pool, content: Optional[bytes]) -> str:
    if content is None:
        return "php-fpm still has the pool" if pool.socket in _listening() or not pool.master() else ""
    wanted = re.search(rb"^ping\.response = (\S+)$", content, re.MULTILINE)
    try:
        answer = fastcgi.get(pool.socket, PING)
    except OSError as error:
        return "the pool does not respond at %s (%s)" % (pool.socket, error.strerror or error)
    # A file that was edited on the host may have no such line; any response is enough then.
    return "" if wanted is None or answer.strip() == wanted.group(1) else "the pool still has its former settings"


def _undone(pool: Pool, former: Optional[bytes]) -> str:
    """Reload php-fpm with the restored file, or start php-fpm if it has ended. Return a sentence about the result, also
    if this fails.
    """
    try:
        if not pool.master():
            unit = detect.unit_of(_unit(pool) + ".service")
            commands.run(
                ["systemctl", "restart", unit] if unit else [pool.program, "--daemonize", "--fpm-config", pool.main]
            )
        _reload(pool, former)
    except Refusal as error:
        return "Paddock restored the former file, but: %s" % error.message
    return "Paddock restored the former configuration."


def _unit(pool: Pool) -> str:
    return "php%s-fpm" % pool.version
