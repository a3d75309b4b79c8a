"""Adopt an edit of a deployed file as settings of its site: change the site's definition to match the edited file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.deployments.drift.services import Adoptable, adoptable, adopted
from panel.deployments.models import Drift, PinnedFile
from panel.deployments.revisions.rendered import contents, records_of, site_files, spec_of
from panel.imports.edits.reading import Parts, directives, parts_of, tree, with_edit
from panel.rendering.spec import SiteSpec, to_json
from panel.websites import freeze, web_server_specs
from panel.websites.definition_from_spec import definition_of
from panel.websites.definitions import SiteData
from panel.websites.models import Site
from panel.websites.services import site_define, site_export

_SHOWN = 3  # directives in a message


@dataclass(frozen=True)
class _Edit:
    """An edited file of a site, with the texts of all files of the site by path: as deployed, and with the edit."""

    found: Adoptable
    deployed: dict[str, str]
    edited: dict[str, str]

    def read(self) -> tuple[Parts, Parts]:
        """Return the site's fields in the deployed and in the edited files, both read with the importer. Raises
        ApplicationError if the edit cannot be parsed.
        """
        spec, path = web_server_specs.web_server_spec(self.found.revision.web_server), self.found.path
        tree(spec.engine, self.edited[path])
        return parts_of(spec, self.deployed, path), parts_of(spec, self.edited, path)


@transaction.atomic
def edit_adopt(*, actor: User, drift: Drift) -> Site:
    """Change a site's settings to match a file that was edited on the site's host; return the site.

    Changes the live version and the draft. Other changes in the draft stay.

    Raises ApplicationError, and changes nothing, if the file cannot be adopted, if the settings would produce other
    directives than the edited ones, or if they would also change other files. Raises Conflict if the drift is closed or
    the site has left the web server, PermissionDenied for users who are not administrators.
    """
    require(actor, Action.ADMINISTER)
    found = adoptable(drift)
    site, revision = found.site, found.revision
    edit = _edit(found, drift)
    draft = site_export(site, with_secrets=True)
    live = definition_of(spec_of(revision), revision.web_server, draft, site.web_server)
    try:
        before, after = edit.read()
        spec = _tried(actor, edit, with_edit(live, before, after))
        noted = {"path": found.path, "revision": revision.number}
        wanted = with_edit(draft, before, after)
        site_define(actor=actor, data=wanted, site=site, action="drift.adopt_settings", noted=noted)
    except (ApplicationError, ValidationError) as error:
        raise ApplicationError(
            f"Paddock cannot turn the edit into settings of {site}: {_reason(error)}. Nothing was changed. "
            "Overwrite the file, or adopt its text."
        ) from error
    _unpin(edit)
    adopted(actor, drift, found, cast(dict[str, object], to_json(spec)))
    return site


def _unpin(edit: _Edit) -> None:
    """Delete the PinnedFile of the edited file, which exists if an earlier edit was adopted as text. Deployments then
    write the file again.
    """
    revision = edit.found.revision
    PinnedFile.objects.filter(site=edit.found.site, web_server=revision.web_server, path=edit.found.path).delete()


def _edit(found: Adoptable, drift: Drift) -> _Edit:
    records = records_of(found.revision.files)
    texts = contents(record.sha256 for record in records.values() if not record.secret and not record.link)
    deployed = {path: texts[record.sha256] for path, record in records.items() if not record.secret and not record.link}
    return _Edit(found, deployed, deployed | {found.path: drift.found})


def _tried(actor: User, edit: _Edit, definition: SiteData) -> SiteSpec:
    """Return the frozen site of `definition`, without saving the definition. Raises ApplicationError if the files
    rendered from this site differ from the edited files.
    """
    site, web_server = edit.found.site, edit.found.revision.web_server
    with transaction.atomic():
        _unpin(edit)
        site_define(actor=actor, data=definition, site=Site.objects.get(pk=site.pk))
        fetched = freeze.fetched(site)
        spec = freeze.spec_of_fetched(fetched, web_server)
        files = site_files(fetched, web_server, spec)
        transaction.set_rollback(True)
    _refuse_differences(edit, {file.path: file.text for file in files if not file.is_secret and not file.link_target})
    return spec


def _refuse_differences(edit: _Edit, rendered: dict[str, str]) -> None:
    engine, path = edit.found.revision.web_server.engine, edit.found.path
    others = sorted(
        name
        for name in rendered.keys() | edit.deployed.keys()
        if name != path and rendered.get(name) != edit.deployed.get(name)
    )
    if others:
        raise ApplicationError(f"the settings would also change other files: {', '.join(others)}")
    wanted, given = edit.edited[path], rendered.get(path, "")
    if tree(engine, wanted) != tree(engine, given):
        wanted_words, given_words = Counter(directives(engine, wanted)), Counter(directives(engine, given))
        missing, further = (wanted_words - given_words, given_words - wanted_words)
        words = [f"no setting creates {_listed(missing)}"] if missing else []
        words += [f"the settings would also create {_listed(further)}"] if further else []
        raise ApplicationError(
            "; ".join(words) or "the settings would write the directives of the file in another order"
        )


def _listed(found: Counter[str]) -> str:
    shown = [f"“{text}”" for text in list(found)[:_SHOWN]]
    return ", ".join(shown) + (" and more" if len(found) > _SHOWN else "")


def _reason(error: ApplicationError | ValidationError) -> str:
    if isinstance(error, ApplicationError):
        return error.message.rstrip(".")
    return "; ".join(error.messages).rstrip(".")
