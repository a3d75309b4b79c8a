"""The configurations, alike in what they serve: no access log, keep-alive without end, the distribution's defaults else."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compare.servers import Place


#: Descriptors a server may have: what this account allows.
FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)


def nginx(place: Place, *, http3: bool, http2_directive: bool, gallop: bool) -> str:
    http2 = "http2 on;" if http2_directive else ""
    tls = "ssl" if http2_directive else "ssl http2"
    quic = f"listen 127.0.0.1:{place.tls} quic reuseport; http3 on;" if http3 else ""
    # gallop keeps small files at hand by itself; nginx is given its cache of open files.
    cache = "" if gallop else "open_file_cache max=1000 inactive=60s;"
    return f"""\
daemon off;
user root;
worker_processes 1;
worker_rlimit_nofile {FILES};
pid {place.folder}/pid;
error_log {place.folder}/error.log;
events {{ worker_connections 15000; }}
http {{
    types {{ text/html html; }}
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    {cache}
    map $http_upgrade $upgraded {{ default upgrade; "" ""; }}
    upstream fast {{ server 127.0.0.1:{place.upstream}; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{place.plain};
        listen 127.0.0.1:{place.tls} {tls};
        {http2}
        {quic}
        server_name localhost;
        ssl_certificate {place.certificate};
        ssl_certificate_key {place.key};
        root {place.root};
{_nginx_locations(place)}
    }}
    {place.extra}
}}
"""


def _nginx_locations(place: Place) -> str:
    return f"""\
        location = /proxy {{
            proxy_pass http://fast;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
        location = /site {{
            gzip on;
            add_header X-Frame-Options SAMEORIGIN;
            add_header Strict-Transport-Security "max-age=31536000" always;
            proxy_pass http://fast;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $upgraded;
        }}
        location = /near {{
            proxy_pass http://127.0.0.1:{place.upstream};
        }}
        location = /hello.php {{
            fastcgi_pass unix:{place.php};
            fastcgi_param SCRIPT_FILENAME {place.root}/hello.php;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
        }}"""


APACHE_MODULES = {
    "mpm_event": "mpm_event",
    "authz_core": "authz_core",
    "dir": "dir",
    "mime": "mime",
    "ssl": "ssl",
    "socache_shmcb": "socache_shmcb",
    "http2": "http2",
    "proxy": "proxy",
    "proxy_http": "proxy_http",
    "proxy_fcgi": "proxy_fcgi",
}


def apache(place: Place) -> str:
    modules = "\n".join(f"LoadModule {n}_module /usr/lib/apache2/modules/mod_{f}.so" for n, f in APACHE_MODULES.items())
    return f"""\
{modules}
ServerRoot {place.folder}
ServerName localhost
PidFile {place.folder}/pid
ErrorLog {place.folder}/error.log
DefaultRuntimeDir {place.folder}
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadsPerChild 160
ThreadLimit 160
MaxRequestWorkers 160
AsyncRequestWorkerFactor 100
MaxKeepAliveRequests 0
KeepAliveTimeout 75
TypesConfig /etc/mime.types
AddType text/html .html
Listen 127.0.0.1:{place.plain}
Listen 127.0.0.1:{place.tls}
DocumentRoot {place.root}
<Directory {place.root}>
    Require all granted
</Directory>
ProxyPass /proxy http://127.0.0.1:{place.upstream}/ keepalive=On
<Location /hello.php>
    ProxyPass unix:{place.php}|fcgi://localhost{place.root}/hello.php
</Location>
<VirtualHost 127.0.0.1:{place.tls}>
    Protocols h2 http/1.1
    SSLEngine on
    SSLCertificateFile {place.certificate}
    SSLCertificateKeyFile {place.key}
</VirtualHost>
"""


def h2o(place: Place) -> str:
    """Two hosts that are alike: one of them listens in the clear, the other with TLS."""
    return f"""\
num-threads: 1
max-connections: 15000
pid-file: {place.folder}/pid
error-log: {place.folder}/error.log
user: root
http1-request-timeout: 75
hosts:
  plain:
    listen:
      host: 127.0.0.1
      port: {place.plain}
{_h2o_paths(place)}
  tls:
    listen:
      host: 127.0.0.1
      port: {place.tls}
      ssl:
        certificate-file: {place.certificate}
        key-file: {place.key}
{_h2o_paths(place)}
"""


def _h2o_paths(place: Place) -> str:
    return f"""\
    paths:
      /proxy:
        proxy.reverse.url: http://127.0.0.1:{place.upstream}/
        proxy.timeout.keepalive: 60000
      /:
        file.dir: {place.root}"""


LIGHTTPD_TLS = Path("/usr/lib/lighttpd/mod_openssl.so")


def lighttpd(place: Place) -> str:
    tls = f"""\
server.modules = ("mod_openssl")
$SERVER["socket"] == "127.0.0.1:{place.tls}" {{
    ssl.engine = "enable"
    ssl.pemfile = "{place.certificate}"
    ssl.privkey = "{place.key}"
}}
"""
    return f"""\
{tls if LIGHTTPD_TLS.exists() else ""}
server.document-root = "{place.root}"
server.bind = "127.0.0.1"
server.port = {place.plain}
server.pid-file = "{place.folder}/pid"
server.errorlog = "{place.folder}/error.log"
server.max-connections = 15000
server.max-fds = {FILES}
server.max-keep-alive-requests = 0
server.max-keep-alive-idle = 75
server.feature-flags = ("server.h2proto" => "enable")
mimetype.assign = (".html" => "text/html")
"""


def caddy(place: Place) -> str:
    site = f"""\
    root * {place.root}
    handle /proxy {{
        reverse_proxy 127.0.0.1:{place.upstream}
    }}
    handle /hello.php {{
        php_fastcgi unix/{place.php}
    }}
    handle {{
        file_server
    }}
"""
    return f"""\
{{
    admin off
    auto_https off
    skip_install_trust
    log {{
        output file {place.folder}/error.log
    }}
}}
http://127.0.0.1:{place.plain}, http://localhost:{place.plain} {{
{site}}}
https://localhost:{place.tls}, https://127.0.0.1:{place.tls} {{
    tls {place.certificate} {place.key}
{site}}}
"""


OPENLITESPEED_LIMITS = """\
tuning {
    maxConnections 20000
    maxSSLConnections 20000
    maxKeepAliveReq 32767
    keepAliveTimeout 75
    quicEnable 1
    maxCachedFileSize 4096
    totalInMemCacheSize 20M
    maxMMapFileSize 256K
    totalMMapCacheSize 40M
    useSendfile 1
}
fileAccessControl {
    followSymbolLink 1
    checkSymbolLink 0
    requiredPermissionMask 000
    restrictedPermissionMask 000
}
accessControl {
    allow ALL
}
perClientConnLimit {
    staticReqPerSec 0
    dynReqPerSec 0
    outBandwidth 0
    inBandwidth 0
    softLimit 100000
    hardLimit 100000
    gracePeriod 15
    banPeriod 300
}
"""


def openlitespeed(place: Place) -> str:
    """One virtual host, in the clear and with TLS and QUIC; the program writes its status into the server's folder."""
    return f"""\
serverName localhost
user nobody
group nogroup
mime conf/mime.properties
disableWebAdmin 1
httpdWorkers 1
swappingDir {place.folder}/swap
statDir {place.folder}/stat
errorlog {place.folder}/error.log {{
    logLevel WARN
}}
{OPENLITESPEED_LIMITS}virtualhost main {{
    vhRoot {place.folder}/
    configFile {place.folder}/conf/vhconf.conf
    allowSymbolLink 1
}}
listener plain {{
    address 127.0.0.1:{place.plain}
    secure 0
    map main *
}}
listener tls {{
    address 127.0.0.1:{place.tls}
    secure 1
    keyFile {place.key}
    certFile {place.certificate}
    enableQuic 1
    map main *
}}
"""


def openlitespeed_host(place: Place) -> str:
    return f"docRoot {place.root}/\nenableGzip 0\n"
