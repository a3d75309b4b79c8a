"""Form of a virtual address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from panel.core.forms import InWords, LinesField, leave_to_model, lines_of
from panel.failover.models import VirtualAddress
from panel.hosts.models import Host


def _to_text(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{host} {address}".rstrip() for host, address in pairs)


def _from_text(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in lines_of(text):
        host, *rest = line.split()
        if len(rest) > 1:
            raise ValidationError(
                _(
                    "“%s” is not valid. Enter the name of a host and optionally its IP address, "
                    "for example web-1 192.0.2.1."
                )
                % line
            )
        pairs.append((host, rest[0] if rest else ""))
    return pairs


class VirtualAddressForm(InWords, forms.ModelForm):  # type: ignore[type-arg] # not subscriptable when it runs
    hosts = LinesField(
        label=_("Hosts"),
        required=True,
        rows=3,
        to_text=_to_text,
        from_text=_from_text,
        help_text=_(
            "One per line, in the order in which the hosts take the address. If Paddock connects by a name or over "
            "another network, add the host's own IP address, for example `web-1 192.0.2.1`."
        ),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = VirtualAddress
        fields = ["name", "address", "hosts", "check_url", "returns"]
        labels = {
            "name": _("Name"),
            "address": _("Address"),
            "check_url": _("Check"),
            "returns": _("Move back to the first host once its check passes"),
        }
        help_texts = {
            "address": _(
                "IP address with its prefix length, for example `192.0.2.10/24`. No other device may have this address."
            ),
            "check_url": _(
                "Each host requests this URL from its own web server every second, for example "
                "`http://www.example.com/`. A host gives the address away after two responses in a row without a "
                "status from 200 to 399."
            ),
        }

    def __init__(self, *args: Any, hosts: Iterable[Host], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hosts = {host.name: host for host in hosts}
        leave_to_model(self)
        if self.instance.pk:
            self.fields["name"].disabled = True
            self.initial["hosts"] = [(member.host.name, member.address) for member in self.instance.members.all()]
            self.initial["version"] = self.instance.row_version

    def clean_hosts(self) -> list[tuple[Host, str]]:
        pairs = self.cleaned_data["hosts"]
        unknown = [name for name, _address in pairs if name not in self._hosts]
        if unknown:
            raise ValidationError(_("The panel has no host with the name “%s”.") % unknown[0])
        return [(self._hosts[name], address) for name, address in pairs]

    def values(self) -> Mapping[str, Any]:
        """Return the entered values of the fields of `VirtualAddress`, without its hosts."""
        return {name: self.cleaned_data[name] for name in ("name", "address", "check_url", "returns")}
