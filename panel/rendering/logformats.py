"""Access log formats in each server's notation.

`common` and `combined` are the traditional formats; `timed` is combined plus the response time; `json` is one object
per line. Sources: nginx's ngx_http_log_module, httpd's mod_log_config, OpenLiteSpeed's accesslog.
"""

from __future__ import annotations

from panel.rendering.errors import NotExpressible

FORMATS = ("", "common", "timed", "json")  # "" is combined

_NGINX_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
NGINX = {
    "common": '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent',
    "timed": f"{_NGINX_COMBINED} $request_time",
    "json": '{"time":"$time_iso8601","address":"$remote_addr","user":"$remote_user","host":"$host",'
    '"request":"$request","status":$status,"bytes":$body_bytes_sent,"seconds":$request_time,'
    '"referer":"$http_referer","agent":"$http_user_agent"}',
}
_APACHE_COMBINED = '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"'
APACHE = {
    "": "combined",  # predefined in every distribution's main file
    "common": '%h %l %u %t "%r" %>s %b',
    "timed": _APACHE_COMBINED + " %{ms}T",
    "json": '{"time":"%{%Y-%m-%dT%H:%M:%S%z}t","address":"%a","user":"%u","host":"%v","request":"%r","status":%>s,'
    '"bytes":%B,"milliseconds":%{ms}T,"referer":"%{Referer}i","agent":"%{User-Agent}i"}',
}
OPENLITESPEED = {
    "common": '%h %l %u %t "%r" %>s %b',
    "timed": _APACHE_COMBINED + " %D",
}


def check(value: str, field: str) -> str:
    if value not in FORMATS:
        names = ", ".join(name for name in FORMATS if name)
        raise NotExpressible(field, f"“{value}” is not a log format; use {names}, or leave it empty for combined")
    return value
