"""DNS servers and providers to which Paddock can write records, with the settings of each.

A provider with a `library` name is reached through dns-lexicon; `options` maps Paddock's settings to the options of
dns-lexicon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.ui import Text


class DnsKind(models.TextChoices):
    RFC2136 = "rfc2136", _("DNS server with dynamic updates (RFC 2136)")
    ACME_DNS = "acme_dns", _("acme-dns")
    CLOUDFLARE = "cloudflare", _("Cloudflare")
    DESEC = "desec", _("deSEC")
    DIGITALOCEAN = "digitalocean", _("DigitalOcean")
    GANDI = "gandi", _("Gandi")
    HETZNER = "hetzner", _("Hetzner")
    OVH = "ovh", _("OVHcloud")
    PORKBUN = "porkbun", _("Porkbun")
    POWERDNS = "powerdns", _("PowerDNS")
    ROUTE53 = "route53", _("Amazon Route 53")
    HOOK = "hook", _("Program on the host of the panel")


@dataclass(frozen=True)
class Setting:
    """One setting of a provider.

    `is_address`: the value is the URL, name or address of a server. The panel connects to this server, so the server
    must have a public address.
    """

    name: str
    label: Text
    help: Text = ""
    is_secret: bool = False
    is_needed: bool = True
    is_address: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provider:
    settings: tuple[Setting, ...]
    library: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    needs_administrator: bool = False


ALGORITHMS = ("hmac-sha256", "hmac-sha384", "hmac-sha512", "hmac-sha224", "hmac-sha1")


def _token(help_text: Text) -> Setting:
    return Setting("token", _("API token"), help_text, is_secret=True)


def _by_token(library: str, help_text: Text, **fixed: str) -> Provider:
    return Provider((_token(help_text),), library, {"token": "auth_token"}, fixed)


PROVIDERS: dict[str, Provider] = {
    DnsKind.RFC2136: Provider(
        (
            Setting(
                "server",
                _("Server"),
                _(
                    "Name or address of the DNS server, with `:port` if the port is not 53, "
                    "for example `ns1.example.com`."
                ),
                is_address=True,
            ),
            Setting("key_name", _("Key name"), _("Name of the TSIG key in the DNS server's configuration.")),
            Setting("algorithm", _("Algorithm"), default="hmac-sha256", choices=ALGORITHMS),
            Setting(
                "secret",
                _("Key"),
                _("Secret of the TSIG key in base64, as `tsig-keygen` prints the secret."),
                is_secret=True,
            ),
        )
    ),
    DnsKind.ACME_DNS: Provider(
        (
            Setting(
                "url", _("URL"), _("URL of the acme-dns API, for example `https://auth.acme-dns.io`."), is_address=True
            ),
            Setting("username", _("User name"), _("From the response to the registration at acme-dns.")),
            Setting("password", _("Password"), is_secret=True),
            Setting(
                "subdomain",
                _("Subdomain"),
                _(
                    "From the response to the registration at acme-dns. The CNAME record points to a name that "
                    "starts with the subdomain."
                ),
            ),
        )
    ),
    DnsKind.CLOUDFLARE: _by_token(
        "cloudflare", _("A Cloudflare API token with the permission Zone.DNS:Edit for the zone.")
    ),
    DnsKind.DESEC: _by_token("desec", _("A token of your deSEC account.")),
    DnsKind.DIGITALOCEAN: _by_token("digitalocean", _("A DigitalOcean token with the scope “domain”.")),
    DnsKind.GANDI: _by_token("gandi", _("A Gandi personal access token that may change domains."), api_protocol="rest"),
    DnsKind.HETZNER: _by_token("hetzner", _("A token from the Hetzner console with read and write access.")),
    DnsKind.OVH: Provider(
        (
            Setting("entrypoint", _("Region"), default="ovh-eu", choices=("ovh-eu", "ovh-ca", "ovh-us")),
            Setting("application_key", _("Application key")),
            Setting("application_secret", _("Application secret"), is_secret=True),
            Setting("consumer_key", _("Consumer key"), is_secret=True),
        ),
        "ovh",
        {
            "entrypoint": "auth_entrypoint",
            "application_key": "auth_application_key",
            "application_secret": "auth_application_secret",
            "consumer_key": "auth_consumer_key",
        },
    ),
    DnsKind.PORKBUN: Provider(
        (
            Setting("key", _("API key")),
            Setting("secret", _("Secret API key"), is_secret=True),
        ),
        "porkbun",
        {"key": "auth_key", "secret": "auth_secret"},
    ),
    DnsKind.POWERDNS: Provider(
        (
            Setting(
                "url", _("URL"), _("URL of the PowerDNS API, for example `https://dns.example:8081`."), is_address=True
            ),
            Setting("token", _("API key"), is_secret=True),
            Setting("server_id", _("Server ID"), default="localhost"),
        ),
        "powerdns",
        {"url": "pdns_server", "token": "auth_token", "server_id": "pdns_server_id"},
    ),
    DnsKind.ROUTE53: Provider(
        (
            Setting("access_key", _("Access key ID")),
            Setting("secret_key", _("Secret access key"), is_secret=True),
        ),
        "route53",
        {"access_key": "auth_access_key", "secret_key": "auth_access_secret"},
    ),
    DnsKind.HOOK: Provider(
        (
            Setting(
                "program",
                _("Program"),
                _("Name of a program in the folder PADDOCK_DNS_HOOKS on the panel's host, for example `update-dns`."),
            ),
        ),
        needs_administrator=True,
    ),
}
