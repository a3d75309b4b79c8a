"""What is downloaded: names, versions and SHA-256, and which files of each are whose configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Corpus:
    """`files` are (server, glob below the unpacked root); `inside`: what stands in no virtual host is meant to be
    included in one, and is measured so."""

    name: str
    package: str
    version: str
    sha256: str
    files: tuple[tuple[str, str], ...]
    source: str = "debian"
    inside: bool = False


def _debian(name: str, version: str, sha256: str, *files: tuple[str, str], inside: bool = True) -> Corpus:
    return Corpus(name, name, version, sha256, files, inside=inside)


CORPORA = (
    Corpus(
        "certbot-nginx tests",
        "certbot-nginx",
        "2.11.0",
        "0d1fd009b38229d510fe2e33122758a4ae2ee790c324234ab99ec984211d4d6f",
        (("nginx", "**/testdata/**/*"),),
        source="pypi",
    ),
    Corpus(
        "certbot-apache tests",
        "certbot-apache",
        "2.11.0",
        "27d39c6ad4c95a5ee1d9d8c81e95c3379f8ba35ca181b4a0b64c2bd678983b43",
        (("apache", "**/testdata/**/*"),),
        source="pypi",
    ),
    _debian(
        "nginx-common",
        "1.22.1-9+deb12u11",
        "8ef1715ff5a9764fb5f810116acee417f4e092032212b6e4f392e8d2cd6b0952",
        ("nginx", "etc/nginx/**/*"),
        inside=False,
    ),
    _debian(
        "apache2",
        "2.4.71-1~deb12u1",
        "199c302fd37a8904735a2d28a50b496a86d07d925f8474bb381c0a7bfe755f04",
        ("apache", "etc/apache2/**/*"),
        inside=False,
    ),
    _debian(
        "php8.2-fpm",
        "8.2.35-1~deb12u1",
        "c1d2945f50f401101455ae0038975e828570ae9b3d324fec9ea2d9fd4beba6d4",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "phpmyadmin",
        "4:5.2.1+dfsg-1+deb12u1",
        "65649156757a637d83c873d61511aa964f70fce35d6a6f7e31d18183b71bad91",
        ("apache", "etc/phpmyadmin/apache.conf"),
    ),
    _debian(
        "roundcube-core",
        "1.6.5+dfsg-1+deb12u13",
        "254cf2e046feebc92c91301c826595cd122283c30f5695723c80c0b7f6841d9e",
        ("apache", "etc/roundcube/apache.conf"),
        ("apache", "etc/roundcube/htaccess"),
    ),
    _debian(
        "munin",
        "2.0.73-1",
        "1aefa4ea816f49cfcf47863658d456eb8223ddcfa8c5a210ff7feadc79400326",
        ("apache", "etc/munin/apache24.conf"),
        ("nginx", "usr/share/doc/munin/examples/nginx/*.conf"),
    ),
    _debian(
        "cgit",
        "1.2.3+git20221219.50.91f2590+git2.39.1-1",
        "e39d51909d1aa7ab5327eeae64ad18bad60f55b529ef840cafbb614754a5a191",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "gitweb",
        "1:2.39.5-0+deb12u3",
        "6e406b7801453d817cb671a37834f56089da10f7877c765d6b34cfee2dceed8b",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "mailman3-web",
        "0+20200530-2.1",
        "d5a26856ef00c56b4f2692db94a50f24caf5dc3282cf4ff6d11c1714ac76a38f",
        ("apache", "etc/mailman3/apache.conf"),
        ("nginx", "etc/mailman3/nginx.conf"),
    ),
    _debian(
        "smokeping",
        "2.7.3-4.1",
        "e043cdc98aa8a843d64ee0a0899ac46ba3d7bbe1e90e30f266860c2f3dd1b29b",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "nagios4-cgi",
        "4.4.6-4+deb12u2",
        "ccc221fedc4501559ce213c73b2940f2d3148846a384c5af4bd2e2c6f98a4a5e",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "icingaweb2",
        "2.11.4-2+deb12u1",
        "2b9af333ff4267632393ad3ccbf53dd95a894ddea43e478c702ac321358366c9",
        ("apache", "etc/apache2/**/*"),
    ),
    _debian(
        "dokuwiki",
        "0.0.20220731.a-2",
        "7c96577fdbb0045efbe47be3f68390fb7302dd938fb9ae3f4c79103be4743f32",
        ("apache", "usr/share/doc/dokuwiki/examples/vhost.conf"),
        ("apache", "**/.htaccess"),
    ),
    _debian(
        "postfixadmin",
        "3.3.13-1",
        "3f029cf3dae920aae0998ff21ab4fcc4de89bf9f30f1a9dfb6a460e24870339f",
        ("apache", "etc/apache2/**/*"),
    ),
)
