"""Load tools over TLS: each reaches the named site of a listener that has another default."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from panel.benchmarks.choices import Tool
from panel.benchmarks.tools import commands
from panel.benchmarks.tools.arguments import clean
from panel.benchmarks.tools.parsers import Output, parse
from tests.agents.process import AgentProcess
from tests.support.apache import ApacheInstance
from tests.support.daemon import Daemon
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

# siege needs a name that resolves to the listener (panel/benchmarks/tools/commands.py).
TOOLS = [tool for tool in Tool if tool != Tool.SIEGE]
SERVERS: dict[str, Callable[[Path], Daemon]] = {
    "nginx": NginxInstance,
    "apache": ApacheInstance,
    "gallop": GallopInstance,
}
NGINX = """
server {{ listen 127.0.0.1:{port} ssl; server_name other.example; return 404;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; }}
server {{ listen 127.0.0.1:{port} ssl; server_name a.example; root {root}/www;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; }}
"""
APACHE = """
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
ServerName other.example
SSLEngine on
SSLCertificateFile {root}/cert.pem
SSLCertificateKeyFile {root}/key.pem
Redirect 404 /
</VirtualHost>
<VirtualHost 127.0.0.1:{port}>
ServerName a.example
DocumentRoot {root}/www
SSLEngine on
SSLCertificateFile {root}/cert.pem
SSLCertificateKeyFile {root}/key.pem
</VirtualHost>
"""


@pytest.mark.parametrize("server", SERVERS)
def test_every_tool_reaches_named_tls_site(agent: AgentProcess, server_root: Path, server: str) -> None:
    port, running = free_port(), SERVERS[server](server_root)
    certificate = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a.example"
    files = ["-keyout", f"{server_root}/key.pem", "-out", f"{server_root}/cert.pem"]
    subprocess.run([*certificate.split(), *files], check=True, capture_output=True)
    (server_root / "www" / "index.html").write_text("x" * 100)
    config = APACHE if server == "apache" else NGINX
    (server_root / "conf.d" / "site.conf").write_text(config.format(root=server_root, port=port))
    endpoint = commands.Endpoint("127.0.0.1", port, "a.example", tls=True)
    with running:
        for tool in TOOLS:
            raw = {"concurrency": 2, "tls": True, **({"duration_s": 1} if tool == Tool.WRK else {"requests": 40})}
            built = commands.command(tool, clean(tool, raw), ["/index.html"], endpoint)
            asked = {"argv": built.argv, "target": endpoint.target, "allowed": [endpoint.target], "timeout_s": 20}
            more = {"trees": {}, "input_files": built.input_files, "outputs": built.outputs}
            result = agent.call("bench", {**asked, **more})
            output = Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])
            found = parse(tool, output)
            assert (found.good > 0, found.failed, found.non2xx) == (True, 0, 0), (tool, result)
