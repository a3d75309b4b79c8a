"""The modules that nginx loads are read from its main file and the files that it includes."""

from __future__ import annotations

from pathlib import Path

from agents.host.detect import _loaded


def test_nginx_modules_are_read_from_main_file_and_modules_enabled(tmp_path: Path) -> None:
    (tmp_path / "modules-enabled").mkdir()
    (tmp_path / "modules-enabled" / "50-brotli.conf").write_text(
        "load_module modules/ngx_http_brotli_filter_module.so;\n# load_module modules/ngx_http_off_module.so;\n"
    )
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "site.conf").write_text("load_module modules/ngx_http_wrong_module.so;\n")
    main = tmp_path / "nginx.conf"
    main.write_text(
        f'include {tmp_path}/modules-enabled/*.conf;\nload_module "/usr/lib/nginx/modules/ngx_mail_module.so";\n'
        "events {}\nhttp { include conf.d/*.conf; }\n"
    )
    assert _loaded(str(main)) == {"ngx_http_brotli_filter_module", "ngx_mail_module"}
    main.write_text("include modules-enabled/*.conf;\nevents {}\n")
    assert _loaded(str(main)) == {"ngx_http_brotli_filter_module"}
