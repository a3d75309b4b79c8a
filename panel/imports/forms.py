"""Forms of the import pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import Form
from panel.hosts.models import Host, WebServer
from panel.imports.selectors import Row
from panel.imports.sources import MAX_ARCHIVE_BYTES


class _WebServerField(forms.ModelChoiceField):  # type: ignore[type-arg] # not subscriptable when it runs
    def label_from_instance(self, obj: WebServer) -> str:
        return str(obj)


class ReadForm(Form):
    """Choice of the web server of a host whose live configuration is imported."""

    web_server = _WebServerField(label=_("Web server"), queryset=WebServer.objects.none(), empty_label=None)

    def __init__(self, *args: Any, host: Host, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["web_server"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = host.web_servers.select_related("host").order_by("engine", "pk")


class UploadForm(ReadForm):
    """Upload of an archive of a configuration folder; `web_server` is the web server that will run the sites."""

    archive = forms.FileField(
        label=_("Archive"),
        error_messages={"required": _("Choose a zip or tar archive of the configuration folder.")},
        help_text=_(
            "A zip or tar archive of the web server's configuration folder, for example of `/etc/nginx`. Leave out "
            "private keys."
        ),
    )

    def clean_archive(self) -> Any:
        archive = self.cleaned_data["archive"]
        if archive.size > MAX_ARCHIVE_BYTES:
            limit = MAX_ARCHIVE_BYTES // 1024**2
            raise ValidationError(
                _now("The archive is larger than %d MiB. Leave out files that are not configuration.") % limit
            )
        return archive


class AdoptForm(Form):
    """Choice of the sites to adopt from an import and of their team, with checkboxes to leave out unsupported
    directives and to add missing folders to the host's site folders.
    """

    sites = forms.MultipleChoiceField(label=_("Sites"), error_messages={"required": _("Select the sites to adopt.")})
    team = forms.ModelChoiceField(label=_("Team"), queryset=Team.objects.order_by("name"), empty_label=None)
    accept_refused = forms.BooleanField(label=_("Leave out directives that sites do not support"), required=False)
    add_folders = forms.BooleanField(label=_("Add these folders to the host's site folders"), required=False)

    def __init__(self, *args: Any, rows: Sequence[Row], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["sites"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(row.found.name, row.found.name) for row in rows]
        if not any(row.is_open and row.found.refused for row in rows):
            del self.fields["accept_refused"]
        if not any(row.is_open and row.found.folders for row in rows):
            del self.fields["add_folders"]

    def chosen(self) -> set[str]:
        """Return the names of the selected sites, even of an invalid form."""
        return set(self["sites"].value() or ())
