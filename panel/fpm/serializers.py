"""Serializers of PHP-FPM pools."""

from __future__ import annotations

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer, StrictSerializer, Truth
from panel.fpm.models import FpmPool
from panel.fpm.selectors import is_changed, state_of


class FpmPoolSerializer(serializers.ModelSerializer[FpmPool]):
    """The PHP-FPM pool of a site on its host. `status` is planned (not on the host), succeeded (listening), drifted,
    unsure or failed; `status_text` is the status in words. Both are as the host reported at `seen_at`. `is_changed`:
    the saved settings differ from those on the host.
    """

    site = serializers.CharField(source="site.name", read_only=True)
    host = serializers.CharField(source="host.name", read_only=True)
    socket = serializers.CharField(read_only=True)
    path = serializers.CharField(read_only=True)
    status = serializers.SerializerMethodField()
    status_text = serializers.SerializerMethodField()
    is_changed = serializers.SerializerMethodField()

    class Meta:
        model = FpmPool
        fields = [
            *("site", "host", "name", "php_version", "account", "folder", "max_children", "memory_mb", "upload_mb"),
            *("socket", "path", "text", "status", "status_text", "seen_at", "is_changed", "created_at", "updated_at"),
        ]

    def get_status(self, row: FpmPool) -> str:
        return state_of(row).status

    def get_status_text(self, row: FpmPool) -> str:
        state = state_of(row)
        return f"{state.label}. {state.detail}"

    def get_is_changed(self, row: FpmPool) -> bool:
        return is_changed(row)


class FpmPoolInput(StrictModelSerializer):
    """A new PHP-FPM pool. `account` is an account of the site's host, `php_version` a version of PHP-FPM installed
    there.
    """

    site = serializers.CharField(max_length=63)

    class Meta:
        model = FpmPool
        fields = ["site", "php_version", "account", "folder", "max_children", "memory_mb", "upload_mb"]


class FpmPoolChange(StrictModelSerializer):
    """Fields of a PHP-FPM pool that can change: all except the site and the PHP version."""

    class Meta:
        model = FpmPool
        fields = ["account", "folder", "max_children", "memory_mb", "upload_mb"]


class PoolApplyInput(StrictSerializer):
    replace = Truth(default=False, help_text="True also replaces a file of the pool that was edited on the host.")
