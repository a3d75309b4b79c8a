"""Fetch one revision of a git repository over https, as a tar archive.

The URL comes from a user, so its host is resolved and checked like that of a webhook, and git connects to that address
only, without redirects (docs/threats.md, SSRF). Nothing in the repository is run: no checkout, hook or submodule.
"""

from __future__ import annotations

import base64
import os
import re
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError
from panel.core.webhooks import WebhookUrl, check_url, resolve
from panel.publishing.archives import MAX_UNPACKED_BYTES

TIMEOUT_S = 300.0
_LOOK_EVERY_S = 0.5
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,198}")
_MOST_SAID = 600


def check_repository(text: str) -> WebhookUrl:
    """Validate the https URL of a repository, and return its parts.

    Raises ApplicationError at the field `git_url` if the URL is not valid.
    """
    try:
        url = check_url(text)
    except ApplicationError as error:
        raise ApplicationError(error.message, field="git_url") from error
    if url.scheme != "https" or "?" in url.path:
        raise ApplicationError(
            _("Enter a URL that starts with https:// and has no query, for example https://git.example.com/shop.git."),
            field="git_url",
        )
    return url


def check_ref(text: str) -> str:
    """Validate and return the name of a branch or tag, or a commit; "" stands for the default branch. Raises
    ApplicationError at the field `git_ref` if the name is not valid.
    """
    if text and (not _REF.fullmatch(text) or ".." in text or text.endswith((".lock", "/", "."))):
        raise ApplicationError(_("Enter the name of a branch or tag, or a commit."), field="git_ref")
    return text


def fetched(text: str, ref: str, token: str, folder: Path, check: Callable[[], None]) -> tuple[Path, str]:
    """Fetch a revision of a git repository into the empty `folder`; return the path of a tar archive, and the commit.

    `text` is the URL of the repository, `ref` a branch, tag or commit. `check` is called while git runs; if it raises,
    git is killed. Raises ApplicationError with the reason if git fails.
    """
    program = shutil.which("git")
    if program is None:
        raise ApplicationError(
            _("git is not installed on the host where Paddock's worker runs. Install git on this host, then try again.")
        )
    url = check_repository(text)
    try:
        place = resolve(url)
    except ApplicationError as error:
        raise ApplicationError(error.message, field="git_url") from error
    run = _Git(program, folder, _environment(folder, url, place, token), check)
    run("init", "--quiet", "--bare", "repository")
    run.where = folder / "repository"
    run("fetch", "--quiet", "--no-tags", "--depth=1", "--", text, check_ref(ref) or "HEAD")
    commit = run("rev-parse", "FETCH_HEAD^{commit}").strip()
    archive = folder / "files.tar"
    run("archive", "--format=tar", f"--output={archive}", commit)
    return archive, commit


class _Git:
    """Callable that runs git in a folder, with limits of time and file size, and returns its output."""

    def __init__(self, program: str, where: Path, environment: dict[str, str], check: Callable[[], None]) -> None:
        self.where = where
        self._program = program
        self._environment = environment
        self._check = check

    def __call__(self, *arguments: str) -> str:
        process = subprocess.Popen(
            [self._program, *arguments],
            cwd=self.where,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_UNPACKED_BYTES, MAX_UNPACKED_BYTES))
        alarm = threading.Timer(TIMEOUT_S, _end, (process,))
        alarm.daemon = True
        alarm.start()
        try:
            said = self._output(process)
        finally:
            alarm.cancel()
            _end(process)
        if process.returncode:
            raise ApplicationError(_said(said, process.returncode), field="git_url")
        return said

    def _output(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of the process, and return its output. Call `check` at regular times meanwhile; its
        exceptions stop the wait.
        """
        while True:
            try:
                return process.communicate(timeout=_LOOK_EVERY_S)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                self._check()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and the processes that git started, which are in its process group."""
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


def _said(said: str, code: int) -> str:
    if code < 0:
        seconds = int(TIMEOUT_S)
        return _("git did not finish within %(s)d seconds, or the repository is too large.") % {"s": seconds}
    if re.search(r"returned error: 30\d", said):
        return _("The repository has moved. Paddock does not follow redirects; enter the new URL.")
    lines = [line.strip() for line in said.splitlines() if line.strip() and "hint:" not in line]
    return _("git could not fetch the repository: %s") % " ".join(lines)[-_MOST_SAID:]


def _environment(folder: Path, url: WebhookUrl, place: str, token: str) -> dict[str, str]:
    """Return environment variables that contain the settings of git, including the token.
    Other accounts can read arguments of processes, but not their environment. git reads no configuration files.
    """
    address = f"[{place}]" if ":" in place else place
    values = {
        "protocol.allow": "never",
        "protocol.https.allow": "always",
        "http.followRedirects": "false",
        "http.curloptResolve": f"{url.host}:{url.port}:{address}",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "60",
        "fetch.fsckObjects": "true",
        "core.hooksPath": os.devnull,
        "gc.auto": "0",
    }
    if token:
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        values["http.extraHeader"] = f"Authorization: Basic {basic}"
    found = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(values)),
    }
    for name in ("SSL_CERT_FILE", "GIT_SSL_CAINFO"):
        if name in os.environ:
            found[name] = os.environ[name]
    for number, (key, value) in enumerate(values.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
