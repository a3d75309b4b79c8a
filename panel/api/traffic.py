"""Serializers of the counters of web servers and of the requests of sites."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

_Counts = serializers.DictField


class ZoneSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    requests = serializers.IntegerField()
    requests_per_s = serializers.FloatField()
    responses = _Counts(
        child=serializers.IntegerField(),
        help_text="Responses per status class; `none` counts connections closed without a response.",
    )
    sent_bytes = serializers.IntegerField()
    sent_per_s = serializers.FloatField(help_text="Bytes sent per second.")
    received_bytes = serializers.IntegerField()
    latency_ms = _Counts(
        child=serializers.FloatField(),
        help_text="Response times in ms since the web server started, by percentile: p50, p90, p99, and p999.",
    )
    latency_histogram = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="Pairs of an upper bound of the response time in ms and a number of requests.",
    )


class PeerSerializer(serializers.Serializer[Any]):
    upstream = serializers.CharField()
    server = serializers.CharField()
    state = serializers.ChoiceField(["up", "down", "unavailable", "unhealthy", "checking"])
    backup = serializers.BooleanField()
    active = serializers.IntegerField(help_text="Number of active connections to the server.")
    requests = serializers.IntegerField()
    requests_per_s = serializers.FloatField()
    responses = _Counts(child=serializers.IntegerField())
    fails = serializers.IntegerField()
    mean_ms = serializers.FloatField(allow_null=True)


class CacheSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    size_bytes = serializers.IntegerField()
    max_size_bytes = serializers.IntegerField(allow_null=True)
    entries = serializers.IntegerField()
    responses = _Counts(child=serializers.IntegerField())
    hit_ratio = serializers.FloatField(allow_null=True)


class LimitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["limit_req", "limit_conn"])
    zone = serializers.CharField()
    outcomes = _Counts(child=serializers.IntegerField())


class SiteTrafficSerializer(serializers.Serializer[Any]):
    """Counters of one site since its web server started; rates are averages over the last `seconds` seconds."""

    server = serializers.CharField()
    started_at = serializers.DateTimeField()
    loaded_at = serializers.DateTimeField()
    seconds = serializers.FloatField()
    zones = ZoneSerializer(many=True)
    upstreams = PeerSerializer(many=True)
    caches = CacheSerializer(many=True)
    limits = LimitSerializer(many=True)


class TrafficSerializer(SiteTrafficSerializer):
    """Counters of a web server with all of its sites."""

    connections = _Counts(child=serializers.IntegerField())
    requests = serializers.IntegerField()
    requests_per_s = serializers.FloatField()
    protocols = _Counts(child=serializers.IntegerField())
    quic = _Counts(child=serializers.IntegerField())
    zone_count = serializers.IntegerField(help_text="Number of all zones; `zones` lists only the busiest zones.")


class ServerTrafficSerializer(serializers.Serializer[Any]):
    web_server = serializers.IntegerField(source="web_server.pk")
    engine = serializers.CharField(source="web_server.engine")
    traffic = TrafficSerializer(allow_null=True)
    detail = serializers.CharField(allow_blank=True, help_text="The reason if no figures are available.")


class HostTrafficSerializer(serializers.Serializer[Any]):
    servers = ServerTrafficSerializer(many=True)


class HourSerializer(serializers.Serializer[Any]):
    begin = serializers.DateTimeField()
    requests = serializers.IntegerField()
    sent_bytes = serializers.IntegerField()
    statuses = serializers.DictField(child=serializers.IntegerField())


class SiteRequestsSerializer(serializers.Serializer[Any]):
    """Requests of a site, counted from its access logs. `statuses` has counts by the first digit of the status."""

    begin = serializers.DateTimeField()
    counted_at = serializers.DateTimeField()
    is_complete = serializers.BooleanField()
    whole = HourSerializer()
    steps = HourSerializer(many=True)
