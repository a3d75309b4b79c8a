"""Models of virtual addresses: IP addresses that keepalived moves to another host when their current host fails."""

from __future__ import annotations

import ipaddress

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.host.keepalived_check import URL
from panel.core.models import BaseModel, CheckedModel
from panel.hosts.models import Host
from panel.hosts.validators import validate_name

MAX_ROUTER_ID = 255  # RFC 5798, section 5.2.3


class VirtualAddress(BaseModel):
    """An IP address that only one of several hosts has at a time.

    `applied` is the configuration that its hosts use (rendering.keepalived.AddressSpec as JSON); null if the address is
    not applied.
    """

    name = models.SlugField(max_length=40, unique=True, validators=[validate_name])
    address = models.CharField(max_length=49)  # with its prefix length: 192.0.2.10/24
    router_id = models.PositiveSmallIntegerField(unique=True, editable=False)
    check_url = models.CharField(
        max_length=200,
        validators=[
            RegexValidator(
                URL,
                gettext_lazy("Enter a URL such as http://www.example.com/, with letters, digits and ._~/?=&- only."),
            )
        ],
    )
    returns = models.BooleanField(default=False)
    applied = models.JSONField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        try:
            network = ipaddress.ip_interface(self.address or "")
        except ValueError:
            network = None
        if network is None or "/" not in self.address or _is_reserved(network.ip):
            raise ValidationError(
                {"address": _("Enter an IP address with its prefix length, for example 192.0.2.10/24.")}
            )
        self.address = str(network)
        others = VirtualAddress.objects.filter(address__startswith=f"{network.ip}/").exclude(pk=self.pk)
        if others:
            raise ValidationError(
                {
                    "address": _("The virtual address %s already has this IP address. Enter another address.")
                    % others[0].name
                }
            )

    @property
    def ip(self) -> str:
        return self.address.partition("/")[0]


def _is_reserved(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_loopback or address.is_multicast or address.is_unspecified


class VirtualAddressHost(CheckedModel):
    """A host that can have the virtual address.
    `address` is the host's own IP address, from which keepalived sends its messages to the other hosts.
    """

    virtual_address = models.ForeignKey(VirtualAddress, on_delete=models.CASCADE, related_name="members")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="virtual_addresses")
    address = models.GenericIPAddressField()
    position = models.PositiveSmallIntegerField()

    class Meta:
        verbose_name = "virtual address"
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["virtual_address", "host"], name="failover_one_member_per_host")]

    def __str__(self) -> str:
        return self.host.name


class KeepalivedHost(models.Model):
    """keepalived on one host: the file that Paddock wrote there, and the host's last report.

    `seen` is the last response of the agent's operation `keepalived` (agents/host/keepalived.py), `problem` the error
    of the last attempt to read it, "" after a success.
    """

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="keepalived")
    text = models.TextField(blank=True, default="")
    seen = models.JSONField(default=dict, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"keepalived on {self.host.name}"
