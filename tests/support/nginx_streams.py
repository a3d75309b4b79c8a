"""A private nginx with its stream module, whose main file includes modules-enabled/*.conf as Debian's does."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.nginx import NginxInstance


def stream_module() -> Path:
    """The module of Debian's libnginx-mod-stream, in the package's folder or in PADDOCK_TEST_NGINX_MODULES."""
    folder = os.environ.get("PADDOCK_TEST_NGINX_MODULES", "/usr/lib/nginx/modules")
    found = Path(folder) / "ngx_stream_module.so"
    assert found.is_file(), f"{found} is missing; `make deps` installs libnginx-mod-stream"
    return found


class StreamingNginx(NginxInstance):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        enabled = root / "modules-enabled"
        enabled.mkdir(exist_ok=True)
        (enabled / "50-mod-stream.conf").write_text(f"load_module {stream_module()};\n")
        text = self.main_config.read_text()
        self.main_config.write_text(text.replace("events {", f"include {root}/modules-enabled/*.conf;\nevents {{"))
