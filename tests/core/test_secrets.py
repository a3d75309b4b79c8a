"""Secrets are encrypted in the database and decrypted when read."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from panel.core import fields
from panel.hosts.models import Host


def stored(host: Host) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT private_key FROM hosts_host WHERE id = %s", [host.pk])
        return str(cursor.fetchone()[0])


@pytest.mark.django_db
def test_secret_is_decrypted_on_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Host.objects.create(name="web1", address="192.0.2.1", username="root", private_key="KEY")
    assert "KEY" not in stored(made)
    calls: list[str] = []
    decrypt = fields.decrypt
    monkeypatch.setattr(fields, "decrypt", lambda value: calls.append(value) or decrypt(value))
    host = Host.objects.get(pk=made.pk)
    assert host.name == "web1"
    assert not calls
    assert (host.private_key, host.private_key, host.password) == ("KEY", "KEY", "")
    assert len(calls) == 1
    assert Host.objects.defer("private_key").get(pk=made.pk).private_key == "KEY"


@pytest.mark.django_db
def test_secret_is_kept_when_row_is_saved_without_reading_it() -> None:
    made = Host.objects.create(name="web1", address="192.0.2.1", username="root", private_key="KEY")
    host = Host.objects.get(pk=made.pk)
    host.name = "web2"
    host.save()
    assert Host.objects.get(pk=made.pk).private_key == "KEY"


@pytest.mark.django_db
def test_secret_with_lost_key_raises_clear_error() -> None:
    made = Host.objects.create(name="web1", address="192.0.2.1", username="root", private_key="KEY")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE hosts_host SET private_key = 'x' || private_key WHERE id = %s", [made.pk])
    host = Host.objects.get(pk=made.pk)
    with pytest.raises(ImproperlyConfigured, match="PADDOCK_ENCRYPTION_KEYS"):
        _ = host.private_key
