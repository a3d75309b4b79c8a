from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from panel.accounts.models import User
from panel.core.fields import encrypted_fields
from panel.deployments.models import Blob
from panel.hosts.models import Host
from tests.support.cast import Cast


def test_key_rotation_reencrypts_every_secret_with_first_key(people: Cast, settings: Settings) -> None:
    people.host.private_key, people.host.sudo_password = "KEY", "PASS"
    people.host.save()
    people.admin.totp_secret = "TOTP"
    people.admin.save()
    Blob.objects.create(sha256="0" * 64, content="file", size=4)
    version = Host.objects.get(pk=people.host.pk).row_version
    old, new = settings.ENCRYPTION_KEYS, Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, *old]
    call_command("rotate_secrets", verbosity=0)
    settings.ENCRYPTION_KEYS = [new]
    host = Host.objects.get(pk=people.host.pk)
    assert (host.private_key, host.password, host.sudo_password) == ("KEY", "", "PASS")
    assert User.objects.get(pk=people.admin.pk).totp_secret == "TOTP"
    assert Blob.objects.get().content == "file"
    assert host.row_version == version
    settings.ENCRYPTION_KEYS = old
    host = Host.objects.get(pk=people.host.pk)
    with pytest.raises(ImproperlyConfigured):
        _ = host.private_key


def test_key_rotation_covers_every_model_with_secrets() -> None:
    found = {f"{model._meta.label}.{name}" for model, names in encrypted_fields() for name in names}
    assert {
        "accounts.User.totp_secret",
        "hosts.Host.private_key",
        "hosts.Host.password",
        "hosts.Host.sudo_password",
        "websites.Certificate.private_key_pem",
        "deployments.Blob.content",
        "deployments.Drift.found",
    } <= found


def test_secrets_are_encrypted_in_database(people: Cast) -> None:
    people.host.password = "hunter2-hunter2"
    people.host.save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT password FROM hosts_host")
        stored = cursor.fetchone()[0]
    assert stored.startswith("gAAAA") and "hunter2" not in stored
