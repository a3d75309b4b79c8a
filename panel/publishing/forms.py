"""Forms of the page on which the content of a site is published."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from panel.core.forms import Form, LinesField
from panel.publishing.archives import MAX_UPLOAD_BYTES, MIB


class PublishForm(Form):
    """Fields that the forms of all sources share: the folder to replace, and its files to keep. `root` is the live
    document root of the site.
    """

    above = forms.TypedChoiceField(label=_("Folder on the hosts"), coerce=int, choices=[])
    keep = LinesField(
        label=_("Keep"),
        required=False,
        rows=2,
        help_text=_("Files and folders that stay unchanged on the hosts, one per line, for example `uploads`."),
    )
    replace = forms.BooleanField(
        label=_("Replace files that Paddock did not publish"),
        required=False,
        help_text=_("The former folder stays on the host, where visitors cannot request its files."),
    )

    def __init__(self, *args: Any, root: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parent = root.rpartition("/")[0]
        field = self.fields["above"]
        assert isinstance(field, forms.TypedChoiceField)
        field.choices = [
            (0, _now("The document root: %s") % root),
            (1, _now("The folder above the document root, for applications: %s") % parent),
        ]


class ContentUploadForm(PublishForm):
    archive = forms.FileField(
        label=_("Archive"),
        error_messages={"required": _("Choose a zip or tar archive of the files.")},
        help_text=_(
            "A zip or tar archive. If the archive contains only one folder, Paddock publishes the content "
            "of this folder."
        ),
    )
    folder = forms.CharField(
        label=_("Folder in the archive"),
        required=False,
        max_length=300,
        help_text=_("Leave empty to publish the whole archive, or enter a folder, for example `dist`."),
    )

    def clean_archive(self) -> Any:
        archive = self.cleaned_data["archive"]
        if archive.size > MAX_UPLOAD_BYTES:
            raise ValidationError(_now("The archive is larger than %d MiB.") % (MAX_UPLOAD_BYTES // MIB))
        return archive


class ContentGitForm(PublishForm):
    git_url = forms.CharField(
        label=_("Repository"),
        max_length=500,
        help_text=_("URL of the git repository, for example `https://git.example.com/shop.git`."),
    )
    git_ref = forms.CharField(
        label=_("Branch, tag or commit"),
        required=False,
        max_length=200,
        help_text=_("Leave empty for the default branch, or enter for example `v1.2`."),
    )
    git_token = forms.CharField(
        label=_("Access token"),
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Only for private repositories. Paddock uses the token once and does not store the token."),
    )
    folder = forms.CharField(
        label=_("Folder in the repository"),
        required=False,
        max_length=300,
        help_text=_("Leave empty to publish the whole repository, or enter a folder, for example `public`."),
    )
