"""Form of a PHP-FPM pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.fpm.models import FpmPool
from panel.fpm.reading import Offer
from panel.websites.forms.base import PartForm


class FpmPoolForm(PartForm[FpmPool]):
    php_version = forms.ChoiceField(label=_("PHP version"))
    account = forms.ChoiceField(
        label=_("Account"),
        help_text=_(
            "The account on the host that PHP runs as. The list does not contain system accounts or "
            "accounts of other teams."
        ),
    )

    class Meta:
        model = FpmPool
        fields = ("php_version", "account", "folder", "max_children", "memory_mb", "upload_mb")
        labels = {
            "folder": _("Folder"),
            "max_children": _("Maximum processes"),
            "memory_mb": _("Memory limit (MB)"),
            "upload_mb": _("Upload size (MB)"),
        }
        help_texts = {
            "folder": _(
                "PHP opens only files below this folder and temporary files of the pool, for example `/srv/www/shop`."
            ),
            "max_children": _("php-fpm starts processes on demand. If all processes are busy, requests wait."),
        }

    def __init__(self, *args: Any, offer: Offer, taken: Iterable[str] = (), **kwargs: Any) -> None:
        """Fill the choices of the form. `offer`: PHP versions and accounts of the host; `taken`: accounts that this
        site cannot use.
        """
        super().__init__(*args, **kwargs)
        versions, accounts = list(offer.versions), [name for name in offer.accounts if name not in set(taken)]
        if self.instance.pk:
            self.fields["php_version"].disabled = True
            versions = [self.instance.php_version]
            accounts = sorted({*accounts, self.instance.account})
        for name, values in (("php_version", versions), ("account", accounts)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = (
                [("", _("Choose")), *((value, value) for value in values)]
                if name == "account"
                else [(value, value) for value in values]
            )
