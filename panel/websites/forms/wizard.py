"""Creation of a site from the wizard's form, with errors assigned to the form's fields."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.websites import services
from panel.websites.forms.sites import SiteCreateForm, certifiable_names
from panel.websites.models import Certificate, Site
from panel.websites.presets import Answers
from panel.websites.services.base import at_fields


def _certificate(actor: User, form: SiteCreateForm) -> Certificate | None:
    answers = form.cleaned_data
    if answers["tls"] == "self_signed":
        return services.certificate_self_sign(
            actor=actor, team=answers["team"], name=answers["name"], names=certifiable_names(form)
        )
    return form.certificates.get(answers["tls"].removeprefix("certificate:"))


@transaction.atomic
def site_from_wizard(actor: User, form: SiteCreateForm) -> Site:
    """Create the site that the wizard describes, with a self-signed certificate if requested. ValidationError is keyed
    by the form's fields.
    """
    values: Any = {name: form.cleaned_data[name] for name in ("team", "name", "domains", "web_server", "port", "ipv6")}
    values |= {name: form.cleaned_data.get(name) or "" for name in Answers.__dataclass_fields__}
    try:
        return services.site_from_preset(
            actor=actor,
            preset=form.cleaned_data["kind"],
            certificate=_certificate(actor, form),
            **values,
        )
    except ValidationError as error:
        if not hasattr(error, "error_dict"):
            raise
        raise at_fields(error.message_dict, {"certificate": "tls"}) from error
