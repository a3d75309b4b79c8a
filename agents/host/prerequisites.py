"""Check the folders, files, sockets, services and ports that sites of a plan need, without any change on the host.

Each row of the result, {"kind", "name", "state", "detail"}, names something that is not usable. Something without a row
is usable, or unknown because it could not be checked. Kinds and states:

    folder   missing (`detail`: "own" if only trusted accounts can create the folder) | not_folder | empty |
             unreadable (`detail`: the account of the web server)
    socket   missing | refused | unreadable
    service  refused | silent | unknown (`detail`: the system's message)
    file     missing | not_file
    port     taken (`detail`: the program that listens, with its process id)
"""

from __future__ import annotations

import os
import pwd
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Optional

from agents.host import addresses, commands, listeners, paths, processes, safe
from agents.host.errors import Refusal

MOST = 500  # of each kind
AT_ONCE = 32
CONNECT_S = 1.0
FOR_S = 4.0  # for all connections; those left over have no answer

Missing = Dict[str, str]


def look(needs: dict[str, Any]) -> list[Missing]:
    """Return a row for each thing that a plan needs and that is not usable on the host (see the top of this module).

    `needs` is {"servers": [pid file], "folders" and "sockets": [{"path", "server": pid file}], "files": [path],
    "services": ["host:port"], "ports": [{"address", "port"}]}. A port on which one of the `servers` listens is free for
    the plan.
    """
    for kind in ("servers", "folders", "files", "sockets", "services", "ports"):
        if not isinstance(needs.get(kind), list) or len(needs[kind]) > MOST:
            raise Refusal("invalid", "%s is a list of at most %d" % (kind, MOST))
    accounts = {path: account_of(path) for path in dict.fromkeys(needs["servers"])}
    found = [_folder(str(item["path"])) for item in needs["folders"]]
    found += [_file(str(path)) for path in needs["files"]]
    until = time.monotonic() + FOR_S
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found += pool.map(lambda item: _socket(str(item["path"]), until), needs["sockets"])
        found += pool.map(lambda name: _service(str(name), until), needs["services"])
    known = [item for item in found if item]
    named = {item["name"] for item in known if item["state"] != "empty"}
    rest = [item for item in needs["folders"] + needs["sockets"] if item["path"] not in named]
    known += _unreadable(rest, accounts, {str(item["path"]) for item in needs["sockets"]})
    ports = [(str(item["address"]), int(item["port"])) for item in needs["ports"]]
    return known + listeners.taken(ports, needs["servers"])


def _answer(kind: str, name: str, state: str, detail: str = "") -> Missing:
    return {"kind": kind, "name": name, "state": state, "detail": detail}


def _folder(path: str) -> Optional[Missing]:
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return _answer("folder", path, "not_folder")
        with os.scandir(path) as entries:
            return None if any(True for _ in entries) else _answer("folder", path, "empty")
    except (FileNotFoundError, NotADirectoryError):
        return _answer("folder", path, "missing", "own" if _is_own(path) else "")
    except OSError:  # this account cannot read the folder
        return None


def _file(path: str) -> Optional[Missing]:
    try:
        return None if stat.S_ISREG(os.stat(path).st_mode) else _answer("file", path, "not_file")
    except (FileNotFoundError, NotADirectoryError):
        return _answer("file", path, "missing")
    except OSError:  # this account cannot enter the folder
        return None


def _is_own(path: str) -> bool:
    """Return whether only trusted accounts can create the missing folder `path`, because only they can change its
    nearest existing parent.
    """
    while path != "/":
        path = os.path.dirname(path)
        try:
            folder = paths.open_folder(path, os.O_PATH)
        except FileNotFoundError:
            continue
        except (OSError, Refusal):  # a link, or a file
            return False
        try:
            return not safe.writers(folder, path)
        finally:
            os.close(folder)
    return False


def _socket(path: str, until: float) -> Optional[Missing]:
    if time.monotonic() > until:
        return None
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.settimeout(CONNECT_S)
        stream.connect(path)
    except (FileNotFoundError, NotADirectoryError):
        return _answer("socket", path, "missing")
    except ConnectionRefusedError:
        return _answer("socket", path, "refused")
    except OSError:  # its queue is full, or this account may not connect
        return None
    finally:
        stream.close()
    return None


def _service(name: str, until: float) -> Optional[Missing]:
    """Connect to a service over TCP, without a request. Return a row if that fails; None if it succeeds, for the name
    of a forbidden address, and after the time `until`.
    """
    if time.monotonic() > until:
        return None
    host, _, port = name.rpartition(":")
    try:
        targets = addresses.resolved(host.strip("[]"), int(port))
    except addresses.Refused:
        return None  # another check refuses the plan for such a name
    except (OSError, ValueError, OverflowError, UnicodeError) as error:
        return _answer("service", name, "unknown", str(getattr(error, "strerror", "") or error))
    answer = None
    for family, kind, protocol, _canonical, address in targets[:4]:
        try:
            with socket.socket(family, kind, protocol) as stream:
                stream.settimeout(CONNECT_S)
                stream.connect(address)
            return None
        except socket.timeout:
            answer = answer or _answer("service", name, "silent")
        except OSError as error:
            answer = _answer("service", name, "refused", str(error.strerror or error))
    return answer


def account_of(pid_file: str) -> Optional[Dict[str, str]]:
    """Return the account of a server's worker processes, {"uid", "gid", "groups", "name"}; None if the server does not
    run.
    """
    master = processes.pid_in(pid_file)
    if not master or not processes.exists(master):
        return None
    for pid in [*sorted(processes.children(master)), master]:
        fields = _status(pid)
        if "Uid" in fields and "Gid" in fields:
            uid = fields["Uid"].split()[1]
            groups = ",".join(fields.get("Groups", "").split())
            return {"uid": uid, "gid": fields["Gid"].split()[1], "groups": groups, "name": _name_of(int(uid))}
    return None


def _status(pid: int) -> Dict[str, str]:
    lines = processes.read("/proc/%d/status" % pid).decode("utf-8", "replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _unreadable(
    items: Iterable[dict[str, str]], accounts: Dict[str, Optional[Dict[str, str]]], sockets: set[str]
) -> List[Missing]:
    """Return a row for each folder that its web server's account cannot enter, and for each socket to which it cannot
    write.

    find(1) checks this as that account, so access control lists and security modules count too.
    """
    groups: Dict[str, List[str]] = {}
    for item in items:
        groups.setdefault(str(item["server"]), []).append(str(item["path"]))
    found = []
    for server, wanted in groups.items():
        account = accounts.get(server)
        if account is None or account["uid"] == "0":
            continue
        for group, test in (
            ([path for path in wanted if path not in sockets], ("-executable",)),
            ([path for path in wanted if path in sockets], ("-writable",)),
        ):
            allowed = _allowed(group, test, account) if group else None
            if allowed is not None:
                kind = "socket" if test == ("-writable",) else "folder"
                found += [_answer(kind, path, "unreadable", account["name"]) for path in group if path not in allowed]
    return found


def _allowed(wanted: List[str], test: Iterable[str], account: Dict[str, str]) -> Optional[set[str]]:
    """Run find(1) as `account` with `test`, for example -writable; return the paths in `wanted` that pass the test.
    None if find cannot be run as this account, or its output is incomplete.
    """
    setpriv, find = commands.find("setpriv"), commands.find("find")
    if os.geteuid() != 0 or not setpriv or not find:
        return None
    groups = ["--groups=%s" % account["groups"]] if account["groups"] else ["--clear-groups"]
    become = [setpriv, "--reuid=%s" % account["uid"], "--regid=%s" % account["gid"], *groups, "--"]
    try:
        done = commands.run([*become, find, "-H", *wanted, "-maxdepth", "0", *test, "-print"])
    except (OSError, Refusal):
        return None
    is_whole = done.exit_code in (0, 1) and len(done.output) < commands.MAX_OUTPUT // 2
    return set(done.output.splitlines()) if is_whole else None
