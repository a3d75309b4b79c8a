"""WordPress in a stand: a private copy of the distribution's, its database in the stand's folder, pages to browse.

The system's own MariaDB and WordPress are not touched. The database listens on a socket in the stand's folder and has
no administrator's account; its password and WordPress's keys are made here, for this stand, and go with it.
"""

from __future__ import annotations

import os
import secrets
import shutil

from agents.host import applications, commands, netns, stand_files
from agents.host.errors import Refusal, no_space
from agents.host.wordpress_php import CONFIG, INSTALL, PLUGIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List

    from agents.host import lean

_KEYS = ("AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY")
_SALTS = ("AUTH_SALT", "SECURE_AUTH_SALT", "LOGGED_IN_SALT", "NONCE_SALT")
_SETUP_S = 120.0


class WordPress:
    """Call `lay` before the stand's servers start and `fill` when its database answers."""

    def __init__(self, folder: str) -> None:
        lacking = applications.missing()
        if lacking:
            raise Refusal(
                "missing",
                "this host lacks %s for a stand with WordPress; the panel installs it on request" % ", ".join(lacking),
            )
        self._folder = folder
        self._www = os.path.join(folder, "www")
        self._home = os.path.join(folder, "mariadb")
        self._account = stand_files.account() if os.geteuid() == 0 else None

    def lay(self) -> None:
        """WordPress's files, its configuration outside of what is served, and an empty database."""
        try:
            self._copy()
            self._configure()
            self._make_database()
        except shutil.Error as error:
            raise Refusal("failed", "WordPress could not be copied: %s" % error.args[0][0][2]) from None
        except OSError as error:
            raise no_space(error, self._folder) from None

    def _copy(self) -> None:
        def left_out(folder: str, names: List[str]) -> List[str]:
            # The distribution's configuration leads to the system's database; plugins are nobody's wish here.
            kept_back = {applications.SOURCE: ("wp-config.php", ".htaccess")}
            kept_back[applications.SOURCE + "/wp-content"] = ("plugins", "mu-plugins")
            return [name for name in names if name in kept_back.get(folder, ())]

        # Links of the package lead to other packages of root's.
        shutil.copytree(
            applications.SOURCE, self._www, ignore=left_out, ignore_dangling_symlinks=True, dirs_exist_ok=True
        )
        plugins = os.path.join(self._www, "wp-content", "mu-plugins")
        os.makedirs(plugins)
        self._write(os.path.join(plugins, "stand.php"), PLUGIN, 0o644)

    def _configure(self) -> None:
        password = secrets.token_hex(24)
        values: Dict[str, str] = {name: secrets.token_hex(32) for name in _KEYS + _SALTS}
        values["DB_PASSWORD"] = password
        values["DB_HOST"] = "localhost:" + os.path.join(self._home, "mariadb.sock")
        # Quotes and backslashes end no word here: hexadecimal digits, and a path that mkdtemp(3) chose.
        defined = "".join("define('%s', '%s');\n" % pair for pair in values.items())
        self._write(os.path.join(self._folder, "wp-config.php"), CONFIG.replace("/*DEFINED*/", defined), 0o600)
        self._write(os.path.join(self._folder, "install.php"), INSTALL, 0o600)
        os.makedirs(self._home, exist_ok=True)
        # One statement on each line (MariaDB, init_file); read once, as the server's own account.
        statements = [
            "CREATE DATABASE wordpress CHARACTER SET utf8mb4;",
            "CREATE USER 'wordpress'@'localhost' IDENTIFIED BY '%s';" % password,
            "GRANT ALL ON wordpress.* TO 'wordpress'@'localhost';",
        ]
        self._write(os.path.join(self._home, "init.sql"), "\n".join(statements) + "\n", 0o600)
        self._give(self._home)
        os.chmod(self._home, 0o700)

    def _write(self, path: str, text: str, mode: int) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        if mode == 0o600:
            self._give(path)

    def _give(self, path: str) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _make_database(self) -> None:
        """The system tables and nothing in them: no account, no test database."""
        for name in ("data", "temp"):
            path = os.path.join(self._home, name)
            os.mkdir(path, 0o700)
            self._give(path)
        script = os.path.join(self._home, "tables.sql")
        with open(applications.tables(), encoding="utf-8") as source:
            self._write(script, "create database mysql;\nuse mysql;\n" + source.read(), 0o600)
        server = [applications.database(), "--defaults-file=" + os.path.join(self._home, "server.conf"), "--bootstrap"]
        self._run([*server, "--init-file=", "--skip-log-error"], "the database", script)
        os.unlink(script)

    def fill(self, cancelled: lean.Event) -> None:
        """Installs WordPress in its database, without its form, and writes the pages."""
        if cancelled.is_set():
            raise Refusal("cancelled", "cancelled while WordPress was installed")
        script = os.path.join(self._folder, "install.php")
        # A mail program is not for a stand to call.
        php = [commands.find("php"), "-d", "sendmail_path=/bin/true", "-d", "memory_limit=256M"]
        said = self._run([*php, script], "WordPress")
        if not said.endswith("installed"):
            raise Refusal("failed", "WordPress could not be installed in the stand:\n%s" % said[-3000:])
        os.unlink(script)
        os.unlink(os.path.join(self._home, "init.sql"))

    def _run(self, argv: List[str], what: str, source: str = "") -> str:
        """As the account that the servers run as; what the program said."""
        done = commands.run(netns.die_with_us(argv), prepare=self._as_account(source), timeout_s=_SETUP_S)
        if done.exit_code != 0:
            raise Refusal("failed", "%s could not be set up in the stand:\n%s" % (what, done.output[-3000:]))
        return done.output

    def _as_account(self, source: str) -> Callable[[], None]:
        def prepare() -> None:
            if source:
                os.dup2(os.open(source, os.O_RDONLY), 0)
            if self._account is not None:
                os.setgroups([])
                os.setgid(self._account.pw_gid)
                os.setuid(self._account.pw_uid)

        return prepare
