"""Serializers for the resources of a host."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from panel.hosts.models import Host, HostReading
from panel.hosts.resources import selectors
from panel.hosts.resources.problems import KINDS
from panel.hosts.resources.readings import Disk, Reading
from panel.hosts.retention import KEEP_READINGS


class DiskSerializer(serializers.Serializer[Disk]):
    mount = serializers.CharField()
    type = serializers.CharField()
    total_bytes = serializers.IntegerField(source="total")
    free_bytes = serializers.IntegerField(source="free", help_text="Free space that accounts other than root can use.")
    used_share = serializers.FloatField(
        help_text="Share of the disk in use, from 0 to 1, without the space reserved for root."
    )
    inodes_share = serializers.FloatField()
    is_read_only = serializers.BooleanField(source="read_only")


class ReadingSerializer(serializers.Serializer[Reading]):
    """Reading of a host's resources. Values that the host did not report are null. Shares are from 0 to 1."""

    cpus = serializers.IntegerField(allow_null=True)
    cpu_share = serializers.FloatField(
        allow_null=True, help_text="Share of CPU time in use since the previous reading."
    )
    load = serializers.ListField(child=serializers.FloatField(), help_text="Load averages over 1, 5, and 15 minutes.")
    memory_bytes = serializers.IntegerField(source="memory_total", allow_null=True)
    memory_share = serializers.FloatField(allow_null=True, help_text="In use.")
    swap_bytes = serializers.IntegerField(source="swap_total", allow_null=True)
    swap_share = serializers.FloatField(allow_null=True, help_text="In use.")
    files_open = serializers.IntegerField(allow_null=True)
    disks = DiskSerializer(many=True)
    uptime_s = serializers.FloatField(allow_null=True)
    clock_offset_s = serializers.FloatField(
        allow_null=True, help_text="Seconds by which the host's clock is ahead of the panel's clock."
    )
    reboot_needed = serializers.BooleanField()
    reboot_packages = serializers.ListField(child=serializers.CharField())


class TroubleSerializer(serializers.Serializer[selectors.Trouble]):
    kind = serializers.ChoiceField(choices=KINDS, source="problem.kind")
    mount = serializers.CharField(source="problem.of", allow_blank=True)
    label = serializers.CharField()  # type: ignore[assignment]
    detail = serializers.CharField(source="words")


class HistorySerializer(serializers.ModelSerializer[HostReading]):
    """Use of a host's resources during ten minutes: mean values, and highest values in the fields whose names end in
    `_most`.
    """

    class Meta:
        model = HostReading
        fields = ["at", "cpu", "cpu_most", "load_most", "memory", "memory_most", "swap_most", "disk_most"]


class ResourcesSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(allow_null=True, help_text="Time at which the host measured the values.")
    reading = ReadingSerializer(allow_null=True)
    problems = TroubleSerializer(many=True)
    history = HistorySerializer(many=True)


def resources_of(host: Host) -> dict[str, Any]:
    return {
        "at": host.resources_at,
        "reading": selectors.last_reading(host),
        "problems": selectors.host_troubles(host),
        "history": selectors.history(host, timezone.now() - KEEP_READINGS),
    }
