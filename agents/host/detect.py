"""Detect the web servers of this host: the distribution's, and other running instances of this account.

An engine is {"engine", "label", "version", "modules", "paths": {"binary", "prefix", "main_config", "config_root",
"log_dir", "pid_file"}, "layout", "control", "unit", "running", "private"}. `private` marks an instance that somebody
started in addition to the distribution's. Built-in features are read from the server's own output. From its main file,
only some directives at the start of a line are read.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Iterator

from agents.host import commands, processes, safe
from agents.host.engines import engine_for
from agents.host.engines.openlitespeed import PID_FILE
from agents.host.errors import Refusal
from agents.host.paths import TESTBED_PREFIX

UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")
LITESPEED = ("/usr/local/lsws", "/opt/lsws")  # choices of its installer


def engines() -> list[dict[str, Any]]:
    """Return all web servers of this host (see the top of this module). Labels may repeat; the panel
    makes them unique.
    """
    return [*_nginx(), *_apache(), *_openlitespeed()]


def has_systemd() -> bool:
    """Return whether systemd runs this host (sd_booted(3))."""
    return os.path.isdir("/run/systemd/system")


def unit_of(*names: str) -> str:
    """Return the first of the systemd units `names` that the host has; "" if it has none of them, or no systemd."""
    if has_systemd():
        for name in names:
            if any(os.path.exists(os.path.join(folder, name)) for folder in UNIT_FOLDERS):
                return name
    return ""


def _directive(path: str, name: str) -> str:
    """Return the first argument of a directive at the start of a line in the file `path`; "" if there is none."""
    text = processes.read(path).decode("utf-8", "replace")
    match = re.search(r"^[ \t]*%s[ \t]+\"?([^\s;\"]+)" % name, text, re.MULTILINE)
    return match.group(1) if match else ""


def _label(main_config: str) -> str:
    """Return a label for an instance that is not the distribution's: the name of the folder of its main file, in
    lowercase letters, digits and hyphens.
    """
    folder = os.path.basename(os.path.dirname(main_config))
    return re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")[:50] or "other"


def _mains(program: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (pid, argv) of the running main processes of `program`. Those in containers are left out, because their
    paths mean other files.
    """
    own = _mount_namespace("self")
    for name in sorted(os.listdir("/proc")):
        if not name.isdigit() or processes.program(int(name)) != program:
            continue
        pid = int(name)
        if processes.program(processes.parent(pid)) == program or _mount_namespace(name) != own:
            continue
        argv = processes.read("/proc/%d/cmdline" % pid).rstrip(b"\0").decode("utf-8", "replace")
        yield pid, argv.split("\0") if "\0" in argv else argv.split()


def _is_ours(pid: int, *places: str) -> bool:
    """Return whether a running private instance belongs to this account, and no other account except root can change
    its program and configuration (`places`).

    A process of another account could claim anything about itself, and its owner can change its files at any time.
    Servers of a test bed do not count, because they are temporary.
    """
    if any("/" + TESTBED_PREFIX in place for place in places):
        return False
    try:
        return os.stat("/proc/%d" % pid).st_uid == os.geteuid() and all(_is_own(place) for place in places)
    except OSError:
        return False  # the process and its folder are gone


def _is_own(path: str) -> bool:
    """Return whether the path belongs to the agent's account, and only that account and root can change the path."""
    try:
        return os.stat(safe.true_path(path)).st_uid == os.geteuid()
    except (OSError, Refusal):
        return False


def _mount_namespace(pid: str) -> str:
    try:
        return os.readlink("/proc/%s/ns/mnt" % pid)
    except OSError:
        return ""


def _argument(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1] if option in argv[:-1] else ""


def _made(engine: str, label: str, version: str, modules: list[str], paths: dict[str, str]) -> dict[str, Any]:
    has_sites = os.path.isdir(os.path.join(paths["config_root"], "sites-enabled"))
    layout = "sites" if has_sites and b"sites-enabled" in processes.read(paths["main_config"]) else "conf_d"
    pid = processes.pid_in(paths["pid_file"], believed=False)
    running = bool(pid) and processes.exists(pid)
    return {
        "engine": engine,
        "label": label,
        "version": version,
        "modules": modules,
        "paths": paths,
        "layout": layout,
        "control": "direct",
        "unit": "",
        "running": running,
        "private": False,
    }


# --- nginx ---


def _nginx() -> list[dict[str, Any]]:
    binary = commands.find("nginx")
    if not binary:
        return []
    said = commands.run([binary, "-V"]).output
    match = re.search(r"nginx version: \S+?/(\S+)", said)
    version = match.group(1) if match else ""
    options = dict(re.findall(r"--([a-z-]+)=('[^']*'|\S+)", said))
    modules = sorted(set(re.findall(r"--with-((?:http|stream|mail)\w*_module)", said)))
    if re.search(r"--with-stream(?![\w=])", said):  # built in, so nginx loads no file
        modules.append("ngx_stream_module")
    prefix = options.get("prefix", "/usr/share/nginx")
    config = os.path.join(prefix, options.get("conf-path", "conf/nginx.conf"))
    found = []
    if os.path.exists(config):
        named = sorted({*modules, *_loaded(config)})
        made = _made("nginx", "default", version, named, _nginx_paths(binary, prefix, config, options))
        unit = unit_of("nginx.service")
        found.append(dict(made, unit=unit, control="systemd") if unit else made)
    for pid, argv in _mains("nginx"):
        own_prefix = _argument(argv, "-p") or prefix
        own = os.path.normpath(os.path.join(own_prefix, _argument(argv, "-c") or config))
        if own in [item["paths"]["main_config"] for item in found] or not _is_ours(pid, own, own_prefix):
            continue
        named = sorted({*modules, *_loaded(own)})
        made = _made("nginx", _label(own), version, named, _nginx_paths(binary, own_prefix, own, {}))
        found.append(dict(made, running=True, private=True))
    return found


def _loaded(config: str) -> set[str]:
    """Return the names of the modules that nginx's main file loads, directly or by includes such as Debian's
    modules-enabled.
    """
    texts = [processes.read(config).decode("utf-8", "replace")]
    for pattern in re.findall(r"^[ \t]*include[ \t]+([^\s;\"]*modules[^\s;\"]*)[ \t]*;", texts[0], re.MULTILINE):
        names = sorted(glob.glob(os.path.join(os.path.dirname(config), pattern)))
        texts += [processes.read(name).decode("utf-8", "replace") for name in names]
    lines = [re.findall(r"^[ \t]*load_module[ \t]+\"?([^\s;\"]+)", text, re.MULTILINE) for text in texts]
    return {os.path.basename(path).rpartition(".")[0] for found in lines for path in found}


def _nginx_paths(binary: str, prefix: str, config: str, options: dict[str, str]) -> dict[str, str]:
    pid_file = _directive(config, "pid") or options.get("pid-path", "logs/nginx.pid")
    log = options.get("http-log-path") or _directive(config, "access_log") or "logs/access.log"
    return {
        "binary": binary,
        "prefix": prefix.rstrip("/"),
        "main_config": config,
        "config_root": os.path.dirname(config),
        "log_dir": os.path.dirname(os.path.join(prefix, log)),
        "pid_file": os.path.join(prefix, pid_file),
    }


# --- Apache httpd ---


def _apache() -> list[dict[str, Any]]:
    binary = commands.find("apache2") or commands.find("httpd")
    if not binary:
        return []
    said = commands.run([binary, "-V"]).output
    built = dict(re.findall(r"-D (\w+)=\"([^\"]*)\"", said))
    match = re.search(r"Apache/(\S+)", said)
    version = match.group(1) if match else ""
    root = built.get("HTTPD_ROOT", "/etc/apache2")
    config = os.path.join(root, built.get("SERVER_CONFIG_FILE", "conf/httpd.conf"))
    found = []
    if os.path.exists(config):
        paths = _apache_paths(binary, root, config, built)
        made = _made("apache", "default", version, _apache_modules(binary, root, config), paths)
        unit = unit_of("apache2.service", "httpd.service")
        found.append(dict(made, unit=unit, control="systemd") if unit else made)
    for pid, argv in _mains(os.path.basename(binary)):
        own_root = _argument(argv, "-d") or root
        own = os.path.normpath(os.path.join(own_root, _argument(argv, "-f") or config))
        if own in [item["paths"]["main_config"] for item in found] or not _is_ours(pid, own, own_root):
            continue
        paths = _apache_paths(binary, own_root, own, {})
        made = _made("apache", _label(own), version, _apache_modules(binary, own_root, own), paths)
        found.append(dict(made, running=True, private=True))
    return found


def _apache_modules(binary: str, root: str, config: str) -> list[str]:
    """Return Apache's loaded modules without the suffix: rewrite, ssl, http2, mpm_event.

    Empty if another account can change the configuration, because the server loads these modules as root.
    """
    if not _is_own(config):
        return []
    paths = {"binary": binary, "prefix": root, "main_config": config, "config_root": root, "pid_file": ""}
    server = engine_for(dict(paths, engine="apache", control="direct", unit=""))
    argv = [part if part != "-t" else "-M" for part in server.test_argv(config, root)]
    said = commands.run(argv, server.env()).output
    return sorted(re.findall(r"^ (\w+)_module \(", said, re.MULTILINE))


def _apache_paths(binary: str, root: str, config: str, built: dict[str, str]) -> dict[str, str]:
    envvars = os.path.join(os.path.dirname(config), "envvars")
    variables = dict(
        re.findall(r"^export (APACHE_\w+)=(\S+)", processes.read(envvars).decode("utf-8", "replace"), re.MULTILINE)
    )
    plain = {name: value.replace("$SUFFIX", "") for name, value in variables.items()}
    pid_file = plain.get("APACHE_PID_FILE") or _directive(config, "PidFile") or built.get("DEFAULT_PIDLOG", "")
    log = _directive(config, "ErrorLog")
    log_dir = plain.get("APACHE_LOG_DIR") or os.path.dirname(os.path.join(root, log or "logs/error_log"))
    return {
        "binary": binary,
        "prefix": root.rstrip("/"),
        "main_config": config,
        "config_root": root if config.startswith(root + "/") else os.path.dirname(config),
        "log_dir": log_dir,
        "pid_file": os.path.join(root, pid_file or "logs/httpd.pid"),
    }


# --- OpenLiteSpeed ---


def lsphp(found: list[dict[str, Any]]) -> str:
    """Return the path of the newest PHP with LSAPI; "" if there is none.

    The search is below the server roots of OpenLiteSpeed in `found`, the result of `engines`, in the layout of its
    packages (lsphp83/bin/lsphp), then in PATH.
    """
    roots = [item["paths"]["prefix"] for item in found if item["engine"] == "openlitespeed"]
    paths = [path for root in roots for path in glob.glob(glob.escape(root) + "/lsphp*/bin/lsphp")]
    known = [(int(re.sub("[^0-9]", "", path.split("/")[-3]) or 0), path) for path in paths if os.access(path, os.X_OK)]
    return max(known)[1] if known else commands.find("lsphp")


def _openlitespeed() -> list[dict[str, Any]]:
    """Return the instances of OpenLiteSpeed.

    The program is `bin/openlitespeed` in the server root. Server roots are those in LITESPEED, and those of running
    processes.
    """
    found: list[dict[str, Any]] = []
    for root in LITESPEED:
        if os.path.exists(os.path.join(root, "bin", "openlitespeed")):
            unit = unit_of("lsws.service", "lshttpd.service") if not found else ""
            made = _litespeed(root, PID_FILE, "default" if not found else _label(os.path.join(root, "conf")))
            found.append(dict(made, unit=unit, control="systemd" if unit else "direct"))
    for pid, _ in _mains("openlitespeed"):
        root = os.path.dirname(os.path.dirname(_program_path(pid)))
        if root in [item["paths"]["prefix"] for item in found] or not _is_ours(
            pid, _litespeed_config(root), os.path.join(root, "bin", "openlitespeed")
        ):
            continue
        pid_file = _variable(pid, "OLS_PID_FILE") or PID_FILE
        found.append(dict(_litespeed(root, pid_file, _label(root)), running=True, private=True))
    return found


def _litespeed(root: str, pid_file: str, label: str) -> dict[str, Any]:
    binary = os.path.join(root, "bin", "openlitespeed")
    match = re.search(r"LiteSpeed/(\S+)", commands.run([binary, "-v"]).output)
    paths = {
        "binary": binary,
        "prefix": root,
        "main_config": _litespeed_config(root),
        "config_root": os.path.join(root, "conf"),
        "log_dir": os.path.join(root, "logs"),
        "pid_file": pid_file,
    }
    return dict(_made("openlitespeed", label, match.group(1) if match else "", [], paths), layout="vhosts")


def _litespeed_config(root: str) -> str:
    return os.path.join(root, "conf", "httpd_config.conf")


def _program_path(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


def _variable(pid: int, name: str) -> str:
    """Return the value of an environment variable at the start of a process; "" if it is unset or not accessible."""
    for item in processes.read("/proc/%d/environ" % pid).split(b"\0"):
        key, _, value = item.decode("utf-8", "replace").partition("=")
        if key == name:
            return value
    return ""
