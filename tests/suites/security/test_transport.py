"""Properties of every response: headers, host names, forwarded addresses and production settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client, RequestFactory
from pytest_django import Settings

from panel.accounts.models import User
from panel.core.network import client_address
from tests.suites.security.conftest import session_of
from tests.suites.security.world import World

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.cluster
def test_production_settings_pass_check_deploy(tmp_path: Path) -> None:
    env = {
        "PADDOCK_HOME": str(tmp_path),
        "PADDOCK_HTTPS": "1",
        "PADDOCK_ALLOWED_HOSTS": "panel.example",
        "PADDOCK_TRUSTED_PROXIES": "127.0.0.1",
        "PADDOCK_ORIGINS": "https://panel.example",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "no issues" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("header", ["Host", "X-Forwarded-Host"])
def test_forged_host_header_is_rejected_or_ignored(world: World, header: str) -> None:
    client = session_of(world.admin)
    for path in ("/account/", "/api/v1/sites/", "/login/"):
        response = client.get(path, headers={header: "evil.example"})
        assert (response.status_code == 400) if header == "Host" else (response.status_code < 400 or path == "/login/")
        assert b"evil.example" not in response.content


def test_forwarded_addresses_are_used_only_from_trusted_proxies(settings: Settings) -> None:
    def seen(peer: str, forwarded: str) -> str:
        return client_address(RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded))

    settings.TRUSTED_PROXIES = []
    assert seen("198.51.100.1", "203.0.113.9") == "198.51.100.1"
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    assert seen("198.51.100.1", "203.0.113.9") == "198.51.100.1"
    assert seen("10.0.0.5", "203.0.113.9") == "203.0.113.9"
    assert seen("10.0.0.5", "1.1.1.1, 203.0.113.9, 10.0.0.6") == "203.0.113.9", "what the client wrote is not believed"
    assert seen("10.0.0.5", "<script>") == "10.0.0.5"
    assert seen("10.0.0.5", "") == "10.0.0.5"


def test_cookies_are_http_only_and_same_site(client: Client, world: World, settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    user = User.objects.get(username="ada")
    user.set_password("a fairly long secret")
    user.totp_confirmed_at = None
    user.save()
    client.post("/login/", {"username": "ada", "password": "a fairly long secret"})
    cookie = client.cookies["paddock_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


def test_request_id_of_client_is_ignored(client: Client, db: None) -> None:
    response = client.get("/login/", headers={"X-Request-Id": "forged"})
    assert response["X-Request-Id"] != "forged"
