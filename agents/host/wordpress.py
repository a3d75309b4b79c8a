"""WordPress in a test bed: a private copy of the distribution's WordPress, with its own database and pages.

The host's own MariaDB and WordPress are not changed. The database is in the test bed's folder, listens on a socket in
that folder, and has no administrator account. The password of the database and WordPress's secret keys are created for
this test bed only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from typing import Callable, Dict, List

from agents.host import applications, commands, safe, testbed_files, testbed_servers
from agents.host.errors import Refusal, no_space
from agents.host.wordpress_php import CONFIG, INSTALL, PLUGIN

_KEYS = ("AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY")
_SALTS = ("AUTH_SALT", "SECURE_AUTH_SALT", "LOGGED_IN_SALT", "NONCE_SALT")
_HOME = "mariadb"  # the database's folder in the test bed
_SETUP_S = 120.0


class WordPress:
    """Installation of WordPress in a test bed. Call `lay` before the servers start, and `fill` once the database
    responds.
    """

    def __init__(self, folder: testbed_files.Folder) -> None:
        lacking = applications.missing()
        if lacking:
            raise Refusal(
                "missing",
                "a test bed with WordPress needs %s on this host; install the packages on the host's page"
                % ", ".join(lacking),
            )
        self._folder = folder
        self._path = folder.path
        self._owner = testbed_files.owner()

    def lay(self) -> None:
        """Create WordPress's files, its configuration outside the document root, and an empty database."""
        try:
            self._copy()
            self._configure()
            self._make_database()
        except shutil.Error as error:
            raise Refusal("failed", "WordPress could not be copied: %s" % error.args[0][0][2]) from None
        except OSError as error:
            raise no_space(error, self._path) from None

    def _copy(self) -> None:
        def left_out(folder: str, names: List[str]) -> List[str]:
            # The distribution's configuration uses the system's database; plugins are not wanted.
            kept_back = {applications.SOURCE: ("wp-config.php", ".htaccess")}
            kept_back[applications.SOURCE + "/wp-content"] = ("plugins", "mu-plugins")
            return [
                name
                for name in names
                if name in kept_back.get(folder, ()) or not _is_the_packages(os.path.join(folder, name))
            ]

        # Links of the package lead to other packages, owned by root.
        shutil.copytree(applications.SOURCE, os.path.join(self._path, "www"), ignore=left_out, dirs_exist_ok=True)
        self._folder.put("www/wp-content/mu-plugins/testbed.php", PLUGIN.encode(), 0o644)

    def _configure(self) -> None:
        password = secrets.token_hex(24)
        values: Dict[str, str] = {name: secrets.token_hex(32) for name in _KEYS + _SALTS}
        values["DB_PASSWORD"] = password
        values["DB_HOST"] = "localhost:" + os.path.join(self._path, _HOME, "run", "mariadb.sock")
        # No escapes needed: hexadecimal digits, and a path chosen by mkdtemp(3).
        defined = "".join("define('%s', '%s');\n" % pair for pair in values.items())
        self._write("wp-config.php", CONFIG.replace("/*DEFINED*/", defined))
        self._write("install.php", INSTALL)
        # One statement per line (MariaDB, init_file); read once, as the server's own account.
        statements = [
            "CREATE DATABASE wordpress CHARACTER SET utf8mb4;",
            "CREATE USER 'wordpress'@'localhost' IDENTIFIED BY '%s';" % password,
            "GRANT ALL ON wordpress.* TO 'wordpress'@'localhost';",
        ]
        self._write(_HOME + "/init.sql", "\n".join(statements) + "\n")

    def _write(self, name: str, text: str) -> None:
        """Write a file that only the account of the test bed's servers can read. The account cannot write to the file's
        folder.
        """
        self._folder.put(name, text.encode(), 0o600, self._owner)

    def _make_database(self) -> None:
        """Create the database's folders and its system tables, but no account and no test database."""
        for name in testbed_servers.MariaDB.FOLDERS:
            self._folder.make("%s/%s" % (_HOME, name), 0o700, self._owner)
        with open(applications.tables(), "rb") as source:
            tables = b"create database mysql;\nuse mysql;\n" + source.read()
        config = os.path.join(self._path, _HOME, "server.conf")
        server = [applications.database(), "--defaults-file=" + config, "--bootstrap", "--init-file="]
        with tempfile.TemporaryFile(dir=self._path) as script:
            script.write(tables)
            script.flush()
            script.seek(0)
            self._run(server, "the database", script.fileno())

    def fill(self, cancelled: threading.Event) -> None:
        """Install WordPress in its database and create the pages, by running a PHP script instead of WordPress's web
        form.
        """
        if cancelled.is_set():
            raise Refusal("cancelled", "the run was cancelled during the installation of WordPress")
        script = os.path.join(self._path, "install.php")
        # A test bed must not send mail.
        php = [commands.find("php"), "-d", "sendmail_path=/bin/true", "-d", "memory_limit=256M"]
        said = self._run([*php, script], "WordPress")
        if not said.endswith("installed"):
            raise Refusal("failed", "WordPress could not be installed in the test bed:\n%s" % said[-3000:])
        self._folder.unlink("install.php")
        self._folder.unlink(_HOME + "/init.sql")

    def _run(self, argv: List[str], what: str, source: int = -1) -> str:
        """Run a program as the account of the test bed's servers; return its output. `source` is the descriptor of a
        file for its standard input, -1 for none.

        Raises Refusal if the program fails. `what` names the object that the program sets up, for the message.
        """
        done = commands.run(commands.ending_with_agent(argv), prepare=self._as_account(source), timeout_s=_SETUP_S)
        if done.exit_code != 0:
            raise Refusal("failed", "%s could not be set up in the test bed:\n%s" % (what, done.output[-3000:]))
        return done.output

    def _as_account(self, source: int) -> Callable[[], None]:
        def prepare() -> None:
            if source >= 0:
                os.dup2(source, 0)
            if self._owner is not None:
                os.setgroups([])
                os.setgid(self._owner[1])
                os.setuid(self._owner[0])

        return prepare


def _is_the_packages(path: str) -> bool:
    """Return whether a path exists and only trusted accounts can change it, as for files of a
    distribution's package.
    """
    try:
        safe.true_path(path)
    except (OSError, Refusal):
        return False
    return True
