"""A host with PHP-FPM and a live site, and the panel's side of both."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from panel.fpm import services
from panel.fpm.models import FpmPool
from panel.fpm.selectors import state_of
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Engine, HostJob
from panel.hosts.watching import host_look
from panel.websites import services as websites
from panel.websites.models import Allowance, Site
from panel.websites.services import blocks
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.fpm_host import FpmHost
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance

ADDRESS = "unix:/run/php/paddock-shop.sock"
PORT = 8080
WHO = """<?php
file_put_contents(__DIR__ . '/made', 'by php');
echo posix_getpwuid(posix_geteuid())['name'], ' ', ini_get('memory_limit'), ' ', @file_get_contents('/etc/hostname');
"""


class World:
    """A host with a live site `shop`, whose document root is `folder`."""

    def __init__(self, root: Path, host: FpmHost, engine: Engine) -> None:
        self.host = host
        self.panel = Machine(root, host.machine.sshd)
        self.people, row = self.panel.people, self.panel.host
        row.address = host.machine.sshd.address
        row.save()
        Allowance.objects.all().delete()
        self.panel.port = PORT
        self.server = self.panel.web_server(installed(root, engine), engine)
        self.site = self.panel.site("shop", self.server)
        self.folder = root / "www" / "shop"
        (self.folder / "who.php").write_text(WHO)
        host.files_of(self.folder, "shop")
        self.panel.deploy(self.site)

    def values(self, **values: Any) -> dict[str, Any]:
        return {"php_version": "8.2", "account": "shop", "folder": str(self.folder), **values}

    def created(self, **values: Any) -> HostJob:
        return self.done(services.fpm_pool_create(actor=self.people.admin, site=self.site, **self.values(**values)))

    def done(self, job: HostJob) -> HostJob:
        host_job_execute(job.uuid)
        job.refresh_from_db()
        return job

    def pool(self) -> FpmPool:
        rows = FpmPool.objects.select_related("site__team", "site__web_server", "host")
        return rows.get(host=self.panel.host)

    def looked(self) -> str:
        host_look(self.panel.host.pk)
        return str(state_of(self.pool()).label)

    def with_php(self) -> None:
        """The site's PHP files go to the pool, by an operator."""
        draft = Site.objects.get(pk=self.site.pk)
        php = websites.php_pool_create(actor=self.people.owner, site=draft, name="php", address=ADDRESS)
        blocks.location_create(
            actor=self.people.owner,
            block=draft.blocks.get(),
            match="~",
            pattern=r"\.php$",
            handler="php",
            php_pool=php,
        )
        self.panel.deploy(draft)

    def get(self, path: str) -> tuple[int, str]:
        return self.host.get(PORT, "shop.example", path)

    @property
    def file(self) -> Path:
        return self.host.pools / "paddock-shop.conf"

    @property
    def socket(self) -> Path:
        return self.host.sockets / "paddock-shop.sock"


def installed(root: Path, engine: Engine) -> Any:
    """Installed, not running: the agent starts it on the host. Its workers run as www-data."""
    if engine == Engine.APACHE:
        server = ApacheInstance(root / "apache")
        (root / "apache" / "www").rmdir()
        (root / "apache" / "www").symlink_to(root / "www")
        return server
    server = NginxInstance(root) if engine == Engine.NGINX else GallopInstance(root)
    shutil.copy("/etc/nginx/fastcgi_params", root)
    server.main_config.write_text(server.main_config.read_text().replace("user root;", "user www-data;"))
    return server
