"""Pages of content: the releases of a site, forms to publish, and single publications."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.core.errors import ApplicationError
from panel.core.forms import attempt
from panel.core.http import Request
from panel.core.jobs import JobStatus
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.hosts.selectors import web_servers_visible
from panel.publishing import services
from panel.publishing.forms import ContentGitForm, ContentUploadForm, PublishForm
from panel.publishing.job_kinds import JOB
from panel.publishing.models import Publication, Release
from panel.publishing.selectors import (
    document_root,
    hosts_that_differ,
    publications_visible,
    published,
    releases_visible,
)
from panel.publishing.services import Choices, GitSource
from panel.websites.models import Site
from panel.websites.views.base import crumbs_below, site_get, site_render

MOST_SHOWN = 20


@require_safe
def content(request: Request, name: str) -> HttpResponse:
    """Show the releases of a site, and forms to publish an archive or a git revision."""
    return _page(request, site_get(request, name))


def _page(request: Request, site: Site, **forms: PublishForm) -> HttpResponse:
    root, last = document_root(site), published(site)
    initial = {"above": last.above, "keep": last.keep} if last else {}
    if last and last.git_url:
        initial |= {"git_url": last.git_url, "git_ref": last.git_ref, "folder": last.folder}
    context = {
        "root": root,
        "last": last,
        "differing": hosts_that_differ(site, last),
        "releases": releases_visible(request.user).filter(site=site)[:MOST_SHOWN],
        "publications": publications_visible(request.user).filter(site=site)[:MOST_SHOWN],
        "upload_form": forms.get("upload") or ContentUploadForm(root=root, initial=initial, prefix="upload"),
        "git_form": forms.get("git") or ContentGitForm(root=root, initial=initial, prefix="git"),
        "status_code": 422 if forms else 200,
    }
    return site_render(request, site, "content", "publishing/content.html", **context)


@require_POST
def upload(request: Request, name: str) -> HttpResponse:
    """Store an uploaded archive as a release and publish it."""
    site = site_get(request, name, Action.DEPLOY)
    form = ContentUploadForm(request.POST, request.FILES, root=document_root(site), prefix="upload")
    if form.is_valid():
        given = form.cleaned_data
        archive = given["archive"]
        found = attempt(
            form,
            lambda: services.archive_publish(
                actor=request.user,
                site=site,
                archive=archive,
                filename=archive.name or "",
                folder=given["folder"],
                choices=_choices(form),
            ),
        )
        if found is not None:
            return redirect("publishing:detail", found.uuid)
    return _page(request, site, upload=form)


@require_POST
def from_git(request: Request, name: str) -> HttpResponse:
    """Publish a revision of a git repository, which a worker fetches."""
    site = site_get(request, name, Action.DEPLOY)
    form = ContentGitForm(request.POST, root=document_root(site), prefix="git")
    if form.is_valid():
        given = form.cleaned_data
        source = GitSource(given["git_url"], given["git_ref"], given["git_token"], given["folder"])
        found = attempt(
            form,
            lambda: services.publication_request(actor=request.user, site=site, source=source, choices=_choices(form)),
        )
        if found is not None:
            return redirect("publishing:detail", found.uuid)
    return _page(request, site, git=form)


@require_POST
def again(request: Request, name: str, number: int) -> HttpResponse:
    """Publish a release again, with the options of an earlier publication.
    The form names this publication in `like`; by default, it is the live publication.
    """
    site = site_get(request, name, Action.DEPLOY)
    release: Release = get_object_or_404(releases_visible(request.user), site=site, number=number)
    last = _model_of(request, site)
    replace = request.POST.get("replace") == "on"
    choices = Choices(last.above, last.keep, replace) if last else Choices(replace=replace)
    if request.POST.get("web_server", "").isdecimal():
        row = get_object_or_404(web_servers_visible(request.user), pk=request.POST["web_server"])
        choices = dataclasses.replace(choices, web_server=row)
    try:
        found = services.publication_request(actor=request.user, site=site, source=release, choices=choices)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("publishing:content", name)
    return redirect("publishing:detail", found.uuid)


def _again_url(request: Request, publication: Publication) -> str:
    """Return the URL to publish the release of a failed or cancelled publication again; "" if not possible."""
    is_over = publication.is_finished and publication.status != JobStatus.SUCCEEDED
    if not is_over or publication.release is None or not may(request.user, Action.DEPLOY, publication.site.team):
        return ""
    return reverse("publishing:again", args=[publication.site.name, publication.release.number])


def _model_of(request: Request, site: Site) -> Publication | None:
    like = request.POST.get("like")
    if not like:
        return published(site)
    rows = publications_visible(request.user).filter(site=site)
    try:
        found: Publication | None = rows.filter(uuid=UUID(like)).first()
    except ValueError:
        found = None
    if found is None:
        raise Http404
    return found


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    publication = get_object_or_404(publications_visible(request.user), uuid=uuid)
    back = reverse("publishing:content", args=[publication.site.name])
    context = {
        "publication": publication,
        "content_url": back,
        "again_url": _again_url(request, publication),
        "crumbs": [*crumbs_below(publication.site), Crumb(_("Content"), back)],
        **job_context(JOB, publication, request.user),
    }
    return render(request, "publishing/detail.html", context)


@require_POST
def cancel(request: Request, uuid: UUID) -> HttpResponse:
    publication = get_object_or_404(publications_visible(request.user), uuid=uuid)
    try:
        services.publication_cancel(actor=request.user, publication=publication)
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("publishing:detail", uuid)


def _choices(form: PublishForm) -> Choices:
    return Choices(form.cleaned_data["above"], form.cleaned_data["keep"], form.cleaned_data["replace"])
