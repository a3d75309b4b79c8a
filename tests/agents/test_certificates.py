"""The agent finds the certificates that configurations name, and nothing but certificates leaves the host."""

from __future__ import annotations

import base64
import datetime as dt
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from agents.host import certificates
from agents.host.errors import Refusal
from tests.support.expiring_certificates import certificate

ENDS = dt.timedelta(days=40)


def made(path: Path, name: str, *, with_key: bool = False) -> Path:
    pem, key = certificate(name, ENDS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pem + (key if with_key else ""))
    return path


def asked(*engines: tuple[str, Path], **more: Any) -> dict[str, Any]:
    given = [
        {"engine": engine, "main_config": str(main), "prefix": str(more.get("prefix", main.parent))}
        for engine, main in engines
    ]
    return certificates.run({"engines": given}, lambda event: None, threading.Event())


def found(answer: dict[str, Any]) -> dict[str, str]:
    """Common names by path."""
    leaves = {
        row["path"]: x509.load_der_x509_certificate(base64.b64decode(row["der"])) for row in answer["certificates"]
    }
    return {path: leaf.subject.rfc4514_string().removeprefix("CN=") for path, leaf in leaves.items()}


@pytest.fixture(autouse=True)
def no_usual_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "FOLDERS", ())


def test_nginx_certificates_are_found_through_includes(tmp_path: Path) -> None:
    main = tmp_path / "nginx.conf"
    main.write_text(
        'http { # ssl_certificate /commented/out.pem;\n include conf.d/*.conf; include "sites/one site.conf"; }'
    )
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "sites").mkdir()
    shop = tmp_path / "conf.d" / "shop.conf"
    shop.write_text("server{listen 443 ssl;ssl_certificate tls/shop.pem;ssl_certificate_key tls/shop.key;}")
    (tmp_path / "conf.d" / "off.conf.disabled").write_text("ssl_certificate tls/off.pem;")
    one = tmp_path / "sites" / "one site.conf"
    one.write_text("server { ssl_certificate 'tls/it\\'s.pem'; include sites/*.conf; }")
    names = {str(made(tmp_path / "tls" / "shop.pem", "shop.example")): "shop.example"}
    names |= {str(made(tmp_path / "tls" / "it's.pem", "one.example")): "one.example"}
    made(tmp_path / "tls" / "off.pem", "off.example")
    answer = asked(("nginx", main))
    assert found(answer) == names
    assert [row["named_in"] for row in answer["certificates"]] == [[["nginx", str(shop)]], [["nginx", str(one)]]]
    assert answer["is_complete"] and answer["skipped"] == []


def test_apache_certificates_are_found_with_variables_and_folders(tmp_path: Path) -> None:
    main = tmp_path / "conf" / "httpd.conf"
    main.parent.mkdir()
    main.write_text(
        f'ServerRoot "{tmp_path}"\nDefine TLS tls\nInclude more\nIncludeOptional \\\n  sites/*.conf\n'
        "#SSLCertificateFile /commented/out.pem\nSSLCertificateFile ${TLS}/${UNKNOWN}.pem\n"
    )
    for folder in ("more", "sites"):
        (tmp_path / folder).mkdir()
    (tmp_path / "more" / "a").write_text("<VirtualHost *:443>\n  sslcertificatefile ${TLS}/a.pem\n</VirtualHost>\n")
    (tmp_path / "sites" / "b.conf").write_text('SSLCertificateFile "tls/b.pem"\n')
    names = {str(made(tmp_path / "tls" / f"{name}.pem", f"{name}.example")): f"{name}.example" for name in "ab"}
    answer = asked(("apache", main), prefix="/nowhere")
    assert found(answer) == names
    assert [row["path"] for row in answer["skipped"]] == [f"{tmp_path}/tls/${{UNKNOWN}}.pem"]


def test_openlitespeed_certificates_of_listeners_and_virtual_hosts_are_found(tmp_path: Path) -> None:
    main = tmp_path / "conf" / "httpd_config.conf"
    main.parent.mkdir()
    main.write_text(
        "listener TLS {\n  address *:443\n  certFile $SERVER_ROOT/tls/all.pem\n}\n"
        "virtualhost shop {\n  vhRoot vhosts/shop/\n  configFile $SERVER_ROOT/conf/$VH_NAME.conf\n}\n"
    )
    (tmp_path / "conf" / "shop.conf").write_text("vhssl  {\n  certFile $VH_ROOT/shop.pem\n}\n")
    names = {str(made(tmp_path / "tls" / "all.pem", "all.example")): "all.example"}
    names |= {str(made(tmp_path / "vhosts" / "shop" / "shop.pem", "shop.example")): "shop.example"}
    assert found(asked(("openlitespeed", main), prefix=tmp_path)) == names


def test_same_certificate_is_reported_once_with_all_that_name_it(tmp_path: Path) -> None:
    path = made(tmp_path / "shop.pem", "shop.example")
    mains = []
    for name in ("a", "b"):
        mains.append(tmp_path / f"{name}.conf")
        mains[-1].write_text(f"ssl_certificate {path};")
    (row,) = asked(("nginx", mains[0]), ("native", mains[1]))["certificates"]
    assert row["named_in"] == [["nginx", str(mains[0])], ["native", str(mains[1])]]


def test_private_keys_and_other_files_do_not_leave_the_host(tmp_path: Path) -> None:
    both = made(tmp_path / "both.pem", "shop.example", with_key=True)
    key = tmp_path / "only.key"
    key.write_text(certificate("x.example", ENDS)[1])
    fake = tmp_path / "fake.pem"
    fake.write_text(
        "-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"secret " * 9).decode() + "\n-----END CERTIFICATE-----"
    )
    large = tmp_path / "large.pem"
    large.write_text(certificate("x.example", ENDS)[0] * 200)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    main = tmp_path / "nginx.conf"
    files = [both, key, fake, large, fifo, Path("/etc/shadow"), tmp_path / "missing.pem", Path("/dev/zero")]
    main.write_text("".join(f"ssl_certificate {path};\n" for path in files))
    answer = asked(("nginx", main))
    assert list(found(answer)) == [str(both)]
    assert {row["path"]: row["why"] for row in answer["skipped"]} == {
        str(key): "The file contains no certificate in PEM format.",
        str(fake): "The file contains no certificate in PEM format.",
        str(large): "The file is larger than 64 KiB.",
        str(fifo): "This is not a regular file.",
        "/etc/shadow": "The file contains no certificate in PEM format.",
        str(tmp_path / "missing.pem"): "No such file or directory",
        "/dev/zero": "This is not a regular file.",
    }
    assert "PRIVATE" not in str(answer) and "secret" not in str(answer)


def test_link_of_an_account_that_may_not_read_the_file_is_not_followed(tmp_path: Path) -> None:
    target = made(tmp_path / "private" / "shop.pem", "shop.example", with_key=True)
    target.chmod(0o600)
    folder = tmp_path / "site"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    link = folder / "cert.pem"
    link.symlink_to(target)
    main = tmp_path / "nginx.conf"
    main.write_text(f"ssl_certificate {link};")
    answer = asked(("nginx", main))
    assert answer["certificates"] == [] and "the agent does not read" in answer["skipped"][0]["why"]


def test_usual_folders_add_certificates_that_no_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certbot's folder `live` has links to `archive`."""
    archive = made(tmp_path / "archive" / "mail" / "fullchain3.pem", "mail.example")
    live = tmp_path / "live" / "mail"
    live.mkdir(parents=True)
    (live / "fullchain.pem").symlink_to(archive)
    named = made(tmp_path / "live" / "shop" / "cert.pem", "shop.example")
    (named.parent / "fullchain.pem").write_text(named.read_text())
    (tmp_path / "live" / "README").write_text("about this folder")
    main = tmp_path / "nginx.conf"
    main.write_text(f"ssl_certificate {named};")
    monkeypatch.setattr(certificates, "FOLDERS", (f"{tmp_path}/live/*/fullchain.pem", f"{tmp_path}/live/README"))
    answer = asked(("nginx", main))
    assert found(answer) == {str(named): "shop.example", str(live / "fullchain.pem"): "mail.example"}
    assert [bool(row["named_in"]) for row in answer["certificates"]] == [True, False]
    assert answer["skipped"] == []


def test_circular_and_endless_includes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = tmp_path / "nginx.conf"
    main.write_text(f"include {tmp_path}/*.conf; include nginx.conf; ssl_certificate a.pem;")
    for number in range(50):
        (tmp_path / f"{number}.conf").write_text(f"include {tmp_path}/*.conf;")
    made(tmp_path / "a.pem", "shop.example")
    answer = asked(("nginx", main))
    assert len(answer["certificates"]) == 1 and answer["is_complete"]
    monkeypatch.setattr("agents.host.certificate_names.MOST_FILES", 10)
    assert not asked(("nginx", main))["is_complete"]


def test_reading_that_takes_too_long_fails_instead_of_leaving_certificates_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "nginx.conf"
    main.write_text(f"ssl_certificate {made(tmp_path / 'a.pem', 'a.example')};")
    monkeypatch.setattr(certificates, "LONGEST_S", -1.0)
    with pytest.raises(Refusal, match="took longer than"):
        asked(("nginx", main))


@pytest.mark.parametrize("engines", [None, [1], [{"engine": "nginx"}], [{}] * 21])
def test_malformed_request_is_refused(engines: Any) -> None:
    with pytest.raises(Refusal):
        certificates.run({"engines": engines}, lambda event: None, threading.Event())
