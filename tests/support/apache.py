"""A private Apache httpd: Debian's binary and modules with its own ServerRoot, logs and pid file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.process import tool

MODULES = (
    "access_compat alias allowmethods auth_basic authn_core authn_file authz_core authz_host authz_user autoindex "
    "brotli deflate dir env expires filter headers http2 log_config mime mpm_{mpm} negotiation proxy proxy_balancer "
    "proxy_fcgi proxy_http proxy_wstunnel lbmethod_byrequests lbmethod_bybusyness lbmethod_bytraffic ratelimit "
    "remoteip reqtimeout rewrite setenvif slotmem_shm socache_shmcb ssl status unixd watchdog"
)
MODULE_DIR = Path("/usr/lib/apache2/modules")
MAIN = """\
ServerRoot {root}
ServerName localhost
PidFile {root}/run/httpd.pid
DefaultRuntimeDir {root}/run
ErrorLog {root}/log/error.log
LogLevel warn
{user}
{modules}
TypesConfig /etc/mime.types
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog {root}/log/access.log combined
StartServers 1
# By Apache's own numbers more would come for some seconds, of the old configuration in the middle of a reload.
<IfModule mpm_prefork_module>
    MinSpareServers 1
</IfModule>
<IfModule !mpm_prefork_module>
    MinSpareThreads 1
</IfModule>
Timeout 30
KeepAlive On
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
<Directory {root}/www>
    Require all granted
</Directory>
IncludeOptional {root}/conf.d/*.conf
IncludeOptional {root}/sites-enabled/*.conf
"""


class ApacheInstance(Daemon):
    """`root` holds everything: httpd.conf, conf.d, sites-available, sites-enabled, www, log, run."""

    engine = "apache"
    pid_name = "httpd.pid"
    to_start = ("-k", "start")

    def __init__(self, root: Path, *, mpm: str = "event") -> None:
        self.root = root
        self.binary = tool("apache2", "httpd")
        for folder in ("conf.d", "sites-available", "sites-enabled", "www", "log", "run"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        names = MODULES.format(mpm=mpm).split()
        lines = [
            f"LoadModule {name}_module {MODULE_DIR}/mod_{name}.so"
            for name in names
            if (MODULE_DIR / f"mod_{name}.so").exists()
        ]
        self.main_config = root / "httpd.conf"
        self.main_config.write_text(
            MAIN.format(root=root, modules="\n".join(lines), user="User www-data\nGroup www-data")
        )

    @property
    def version(self) -> str:
        """As the panel knows it: 2.4.62."""
        said = subprocess.run([self.binary, "-v"], capture_output=True, text=True, timeout=20, check=True).stdout
        return said.split("Apache/", 1)[1].split()[0]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [self.binary, "-d", str(self.root), "-f", str(self.main_config), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)


RED_HAT = """\
ServerRoot "{root}"
Include conf.modules.d/*.conf
User www-data
Group www-data
ServerName localhost
PidFile run/httpd.pid
<Directory />
    AllowOverride none
    Require all denied
</Directory>
DocumentRoot "{www}"
<Directory "{www}">
    Require all granted
</Directory>
ErrorLog "logs/error_log"
LogLevel warn
LogFormat "%h %l %u %t \\"%r\\" %>s %b \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
LogFormat "%h %l %u %t \\"%r\\" %>s %b" common
CustomLog "logs/access_log" combined
TypesConfig /etc/mime.types
IncludeOptional conf.d/*.conf
"""


class RedHatApache(ApacheInstance):
    """The same binary in the folders of Red Hat's httpd: etc/httpd with conf, conf.d, conf.modules.d and the links logs
    and run; its main file names no port, as where a drop-in replaced its `Listen`."""

    def __init__(self, root: Path) -> None:
        self.root = root / "etc" / "httpd"
        self.binary = tool("apache2", "httpd")
        self.log_dir = root / "var" / "log" / "httpd"
        for folder in ("conf", "conf.d", "conf.modules.d"):
            (self.root / folder).mkdir(parents=True)
        (root / "www").mkdir()
        for link, target in (("logs", self.log_dir), ("run", root / "run" / "httpd")):
            target.mkdir(parents=True)
            (self.root / link).symlink_to(target)
        lines = [
            f"LoadModule {name}_module {MODULE_DIR}/mod_{name}.so"
            for name in MODULES.format(mpm="event").split()
            if (MODULE_DIR / f"mod_{name}.so").exists()
        ]
        (self.root / "conf.modules.d" / "00-base.conf").write_text("\n".join(lines) + "\n")
        self.main_config = self.root / "conf" / "httpd.conf"
        self.main_config.write_text(RED_HAT.format(root=self.root, www=root / "www"))

    @property
    def paths(self) -> dict[str, str]:
        return super().paths | {
            "config_root": str(self.root), "log_dir": str(self.log_dir), "main_config": str(self.main_config)
        }  # fmt: skip
