"""Validation of each kind of text; each rejection names a valid form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError

from panel.websites import shapes, validators

GOOD = [
    (validators.validate_server_name, ["a.example", "localhost", "*.a.example", ".a.example", "www.*", "192.0.2.7"]),
    (validators.validate_server_name, ["bücher.example", "xn--bcher-kva.example", r"~^(?<sub>.+)\.example\.com$"]),
    (validators.validate_regex, [r"\.php$", r"^/(?<id>\d+)/[[:alpha:]]+\z", r"^/a(?!b)", r"(?i)\.(jpe?g|png)$"]),
    (validators.validate_path, ["/", "/srv/www/a b", "/srv/www/example/", "/srv/www/..data"]),
    (validators.validate_log_path, ["off", "/var/log/nginx/shop.log"]),
    (validators.validate_uri_path, ["/", "/health?full=1", "/a..b"]),
    (validators.validate_header_name, ["X-Frame-Options", "ETag"]),
    (validators.validate_header_value, ["", "DENY", "max-age=3; includeSubDomains", 'a "quoted" {value};#']),
    (validators.validate_expires, ["off", "max", "epoch", "7d", "-1", "1d12h", "0"]),
    (validators.validate_access_source, ["all", "10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]),
    (validators.validate_upstream_address, ["127.0.0.1:3000", "app.internal:80", "[::1]:8080", "unix:/run/app.sock"]),
    (validators.validate_slug, ["shop", "shop-2", "0"]),
    (shapes.validate_try_files, [["$uri", "$uri/", "=404"], ["$uri", "/index.php?$args"]]),
    (shapes.validate_index, [["index.html", "index.php"]]),
    (shapes.validate_error_pages, [[{"codes": [404, 500], "uri": "/e.html"}]]),
    (shapes.validate_headers, [[{"name": "A", "value": "b", "always": False}]]),
    (shapes.validate_access_rules, [[{"action": "deny", "source": "all"}]]),
    (shapes.validate_gzip_types, [["text/css", "*"]]),
    (shapes.validate_php_settings, [{"memory_limit": "256M"}]),
    (shapes.validate_basic_auth_users, [{"anna": "$2y$12$" + "a" * 53}]),
]
BAD = [
    (validators.validate_server_name, "test..com", "two dots in a row"),
    (validators.validate_server_name, "-a.example", "without a hyphen at the start or end"),
    (validators.validate_server_name, "a_b.example", "letters, digits, and hyphens"),
    (validators.validate_server_name, "a.example;", "is not valid"),
    (validators.validate_server_name, "a.example\n}", "a line break"),
    (validators.validate_server_name, "a.example\0", "a NUL byte"),
    (validators.validate_server_name, "a.*.example", "first or last part"),
    (validators.validate_server_name, "https://a.example/", "without http://"),
    (validators.validate_server_name, "straße.example", "punycode"),
    (validators.validate_server_name, "_", "any name"),
    (validators.validate_server_name, "300.1.2.3", "neither a domain name nor an IPv4"),
    (validators.validate_server_name, "~(", "is not valid"),
    (validators.validate_server_name, "a" * 64 + ".example", "Use up to 63"),
    (validators.validate_path, "srv/www", "absolute path"),
    (validators.validate_path, "/srv/../etc", "Paths cannot contain"),
    (validators.validate_path, "/srv//www", "two slashes"),
    (validators.validate_path, "/srv/$host", "cannot contain $ variables"),
    (validators.validate_path, "/srv\r\n/x", "a carriage return"),
    (validators.validate_path, "/srv/\u2028x", "LINE SEPARATOR"),
    (validators.validate_log_path, "/srv/www/shop/x.php", "ends in .log"),
    (validators.validate_log_path, "|/bin/sh", "absolute path"),
    (validators.validate_uri_path, "health", "starts with /"),
    (validators.validate_uri_path, "/../etc", "paths cannot contain"),
    (validators.validate_header_name, "X Frame", "not a header name"),
    (validators.validate_header_name, "", "not a header name"),
    (validators.validate_header_value, "a\r\nSet-Cookie: b", "a carriage return"),
    (validators.validate_header_value, "ü", "must be ASCII"),
    (validators.validate_expires, "soon", "Enter off, max"),
    (validators.validate_access_source, "10.0.0.1/8", "Enter 10.0.0.0/8"),
    (validators.validate_access_source, "", "not a network"),
    (validators.validate_upstream_address, "app", "host:port"),
    (validators.validate_upstream_address, "app:99999", "host:port"),
    (validators.validate_upstream_address, "169.254.169.254:80", "metadata service"),
    (validators.validate_upstream_address, "[::ffff:169.254.169.254]:80", "metadata service"),
    (validators.validate_upstream_address, "0xa9fea9fe:80", "metadata service"),
    (validators.validate_upstream_address, "2852039166:80", "metadata service"),
    (validators.validate_upstream_address, "0251.0376.0251.0376:80", "metadata service"),
    (validators.validate_upstream_address, "[fd00:ec2::254]:80", "metadata service of AWS"),
    (validators.validate_upstream_address, "100.100.100.200:80", "Alibaba"),
    (validators.validate_upstream_address, "[64:ff9b::a9fe:a9fe]:80", "metadata service"),
    (validators.validate_upstream_address, "[2002:a9fe:a9fe::1]:80", "metadata service"),
    (validators.validate_upstream_address, "169.254.0.23:80", "link-local"),
    (validators.validate_upstream_address, "metadata.google.internal:80", "metadata service"),
    (validators.validate_upstream_address, "METADATA.google.internal:80", "metadata service"),
    (validators.validate_upstream_address, "0x7f000001:80", "another spelling"),
    (validators.validate_upstream_address, "127.1:80", "another spelling"),
    (validators.validate_listen_address, "169.254.169.254", "no site may listen on this address"),
    (validators.validate_upstream_address, "unix:run/app.sock", "absolute path"),
    (validators.validate_slug, "Shop_1", "lowercase letters"),
    (validators.validate_slug, "../etc", "lowercase letters"),
    (validators.validate_realm, 'a"b', "ASCII letters"),
    (shapes.validate_try_files, ["=404", "$uri"], "must be the last entry"),
    (shapes.validate_try_files, ["$uri"], "at least two"),
    (shapes.validate_try_files, ["$uri", "index.html"], "not a valid entry"),
    (shapes.validate_try_files, ["$uri", "/../x"], "not a valid entry"),
    (shapes.validate_try_files, "abc", "Enter a list"),
    (shapes.validate_index, ["../x.html"], "not a file name"),
    (shapes.validate_index, [1], "Enter a list"),
    (shapes.validate_error_pages, [{"codes": [99], "uri": "/x"}], "not a status code"),
    (shapes.validate_error_pages, [{"codes": [True], "uri": "/x"}], "Enter a list"),
    (shapes.validate_error_pages, [{"codes": [404], "uri": "/x"}, {"codes": [404], "uri": "/y"}], "twice"),
    (shapes.validate_headers, [{"name": "A"}], "value"),
    (shapes.validate_headers, [{"name": "A", "value": "b", "x": 1}], "x is missing or unknown"),
    (shapes.validate_headers, [{"name": "A", "value": 1}], "must be text"),
    (shapes.validate_access_rules, [{"action": "drop", "source": "all"}], "allow or deny"),
    (shapes.validate_gzip_types, ["css"], "not a media type"),
    (shapes.validate_php_settings, {"auto_prepend_file": "/etc/passwd"}, "cannot be set per site"),
    (shapes.validate_php_settings, {"memory_limit": "1M\nauto_prepend_file=x"}, "a line break"),
    (shapes.validate_basic_auth_users, {"anna": "secret"}, "not a bcrypt hash"),
    (shapes.validate_basic_auth_users, {"a:b": "$2y$12$" + "a" * 53}, "without a colon"),
]


@pytest.mark.parametrize(("check", "values"), GOOD)
def test_valid_values_pass(check: Callable[[object], None], values: list[object]) -> None:
    refused = {}
    for value in values:
        try:
            check(value)
        except ValidationError as error:
            refused[str(value)] = error.messages
    assert refused == {}


@pytest.mark.parametrize(("check", "value", "words"), BAD)
def test_invalid_values_are_rejected_with_message(check: Callable[[object], None], value: object, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check(value)
    assert words in " ".join(caught.value.messages)


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("WWW.Example.COM", "www.example.com"),
        ("*.Bücher.example", "*.xn--bcher-kva.example"),
        ("www.EXAMPLE.*", "www.example.*"),
    ],
)
def test_names_are_stored_in_dns_form(typed: str, stored: str) -> None:
    assert validators.server_name_normalized(typed) == stored
