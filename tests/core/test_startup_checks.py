"""Startup errors are reported with a remedy before anything is changed."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from panel import env
from panel.core.management.commands.run import only_panel_of, port_number
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


def test_second_panel_on_same_data_folder_does_not_start(tmp_path: Path) -> None:
    first = only_panel_of(tmp_path)
    with pytest.raises(CommandError, match=rf"Another panel already uses .* \(process {os.getpid()}\)"):
        only_panel_of(tmp_path)
    first.close()
    only_panel_of(tmp_path).close()


@pytest.mark.parametrize("text", ["0", "65536", "80a", "-1", "", "٨٠"])
def test_invalid_port_is_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 65535"):
        port_number(text)
    assert port_number("8001") == 8001


def test_data_folder_is_created_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "new" / "home"))
    made = env.folder("PADDOCK_HOME", tmp_path)
    assert made == tmp_path / "new" / "home"
    assert made.stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv("PADDOCK_HOME")
    assert env.folder("PADDOCK_HOME", tmp_path) == tmp_path


def test_unusable_data_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "file"))
    with pytest.raises(ImproperlyConfigured, match=r"PADDOCK_HOME is .*/file, which cannot be created"):
        env.folder("PADDOCK_HOME", tmp_path)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ImproperlyConfigured, match=r"cannot write to.*chown"):
        env.folder("PADDOCK_HOME", tmp_path)


def test_unreachable_database_is_reported_in_one_line(tmp_path: Path) -> None:
    away = f"postgres://paddock:secret-word@127.0.0.1:{free_port()}/panel"
    env = os.environ | {"PADDOCK_HOME": str(tmp_path / "home"), "PADDOCK_DATABASE_URL": away}
    argv = [sys.executable, str(ROOT / "manage.py"), "prepare"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "CommandError: The database panel cannot be used: " in done.stderr and "Connection refused" in done.stderr
    assert "PADDOCK_DATABASE_URL" in done.stderr
    assert "Traceback" not in done.stderr and "secret-word" not in done.stderr


def test_prepare_rejects_keys_that_cannot_decrypt_stored_secrets(tmp_path: Path, migrated_sqlite: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PADDOCK_DATABASE_URL"}
    env |= {"PADDOCK_HOME": str(tmp_path / "home"), "PADDOCK_LOCAL_HOST": "0"}

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=180, check=False)

    make = "from panel.hosts.models import Host; Host.objects.create(name='web-1', address='192.0.2.1', password='x')"
    (tmp_path / "home").mkdir()
    shutil.copyfile(migrated_sqlite, tmp_path / "home" / "paddock.sqlite3")
    assert manage("prepare").returncode == 0
    assert manage("shell", "--no-imports", "-c", make).returncode == 0
    shutil.rmtree(tmp_path / "home" / "secrets")
    refused = manage("prepare")
    assert refused.returncode == 1
    assert "CommandError: The encryption keys cannot decrypt the secrets in this database" in refused.stderr
    assert f"Restore the folder secrets from the backup of this database into {tmp_path / 'home'}" in refused.stderr
    assert "Traceback" not in refused.stderr


def settings_with(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a program that only reads the settings says with these variables."""
    read = "from panel import settings; print(settings.SECRET_KEY, settings.EMAIL_PORT, settings.ALLOWED_HOSTS)"
    env = {"PATH": os.environ["PATH"], "PADDOCK_HOME": str(tmp_path / "home"), **variables}
    argv = [sys.executable, "-c", read]
    return subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PADDOCK_HTTPS", "perhaps", "Not a valid boolean"),
        ("PADDOCK_SMTP_PORT", "0", "Must be greater than or equal to 1"),
        ("PADDOCK_SMTP_PORT", "mail", "Not a valid integer"),
        ("PADDOCK_SMTP_TLS", "ssl", "Must be one of: starttls, tls, none"),
        ("PADDOCK_SECRET_KEY_FILE", "/nonexistent/key", "readable file"),
        ("PADDOCK_WEBHOOK_NETWORKS", "10.0.0.0/99", "not a network"),
    ],
)
def test_settings_name_the_variable_when_its_value_is_invalid(tmp_path: Path, name: str, value: str, said: str) -> None:
    refused = settings_with(tmp_path, **{name: value})
    assert refused.returncode != 0
    last = refused.stderr.strip().splitlines()[-1]
    assert name in last and said in last


def test_settings_read_secrets_from_files(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-secret-of-a-file\n")
    known = settings_with(tmp_path, PADDOCK_SECRET_KEY_FILE=str(key), PADDOCK_ALLOWED_HOSTS="a.example, b.example,")
    assert known.stdout == "a-secret-of-a-file 587 ['a.example', 'b.example']\n", known.stderr
    twice = settings_with(tmp_path, PADDOCK_SECRET_KEY_FILE=str(key), PADDOCK_SECRET_KEY="another")
    assert "Both PADDOCK_SECRET_KEY and PADDOCK_SECRET_KEY_FILE are set" in twice.stderr
    assert "another" not in twice.stderr and "a-secret-of-a-file" not in twice.stderr


def test_database_url_may_name_several_hosts() -> None:
    found = env.database("postgres://me:s%40fe@db1:5433,[2001:db8::1]:5434,db3/panel?sslmode=require", at_once=5)
    assert (found["HOST"], found["PORT"]) == ("db1,2001:db8::1,db3", "5433,5434,")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("me", "s@fe", "panel")
    options = found["OPTIONS"]
    assert isinstance(options, dict)
    assert options["target_session_attrs"] == "read-write" and options["sslmode"] == "require"


def test_options_of_database_url_replace_defaults() -> None:
    found = env.database("postgres://me@db1/panel?connect_timeout=9", at_once=5)["OPTIONS"]
    assert isinstance(found, dict)
    assert found["connect_timeout"] == "9" and "target_session_attrs" not in found


@pytest.mark.parametrize("hosts", ["db1:x", "db1:99999", "[::1", "db1:5432,db2:port"])
def test_invalid_host_of_database_url_is_reported(hosts: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"PADDOCK_DATABASE_URL (has the host|is not a valid URL)"):
        env.database(f"postgres://me@{hosts}/panel", at_once=5)
