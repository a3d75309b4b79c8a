"""Files as people pack them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping


def tar(files: Mapping[str, str], links: Mapping[str, str] | None = None, mode: str = "w:gz") -> bytes:
    """`links` are names and what they hold."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return out.getvalue()


def zipped(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


NGINX = {
    "nginx/nginx.conf": "events {}\nhttp {\n    include /etc/nginx/sites-enabled/*;\n    include conf.d/*.conf;\n}\n",
    "nginx/sites-available/shop": """\
server {
    listen 80;
    server_name shop.example www.shop.example;
    root /srv/www/shop;
    location / { try_files $uri $uri/ =404; }
    location /status { stub_status; }
    location /api/ { proxy_pass http://127.0.0.1:3000/; }
}
""",
    "nginx/conf.d/other.conf": """\
server {
    listen 8080;
    server_name other.example;
    root /data/other;
    load_module modules/x.so;
}
""",
    "nginx/conf.d/broken.conf": "server {\n    listen 80;\n",
}
LINKS = {"nginx/sites-enabled/shop": "../sites-available/shop"}
