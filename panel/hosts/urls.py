"""URLs of hosts. Host names contain no +, so a path segment that begins with + is never the name of a host."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.hosts.views import applications, authorities, bulk, changes, logs, pages, resources, traffic
from panel.websites.views import allowances

app_name = "hosts"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", pages.host_list, name="list"),
    path("+new/", changes.add, name="add"),
    path("+bulk/", bulk.bulk, name="bulk"),
    path("+tags/", bulk.bulk_tag, name="bulk_tag"),
    path("+authorities/", authorities.authorities, name="authorities"),
    path("+authorities/+new/", authorities.add, name="authority_add"),
    path("+authorities/<slug:name>/delete/", authorities.delete, name="authority_delete"),
    path("<slug:name>/", pages.detail, name="detail"),
    path("<slug:name>/live/", pages.live, name="live"),
    path("<slug:name>/logs/", logs.logs, name="logs"),
    path("<slug:name>/local-services/", allowances.local_services, name="local_services"),
    path("<slug:name>/resources/", resources.resources, name="resources"),
    path("<slug:name>/traffic/", traffic.traffic, name="traffic"),
    path("<slug:name>/edit/", changes.edit, name="edit"),
    path("<slug:name>/delete/", changes.delete, name="delete"),
    path("<slug:name>/trust/", changes.trust, name="trust"),
    path("<slug:name>/ask/<slug:action>/", changes.ask, name="ask"),
    path("<slug:name>/prepare/<slug:application>/", applications.prepare, name="prepare"),
    path("<slug:name>/service/", changes.service, name="service"),
    path("<slug:name>/servers/+adopt/", changes.adopt, name="adopt"),
    path("<slug:name>/servers/<int:pk>/forget/", changes.forget, name="forget"),
    path("<slug:name>/servers/<int:pk>/stop/", changes.stop, name="stop"),
    path("<slug:name>/jobs/<int:pk>/cancel/", changes.cancel, name="cancel"),
]
