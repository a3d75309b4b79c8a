"""URLs of the content pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.publishing import views

app_name = "publishing"
urlpatterns: list[URLPattern | URLResolver] = [
    path("site/<slug:name>", views.content, name="content"),
    path("site/<slug:name>/upload", views.upload, name="upload"),
    path("site/<slug:name>/git", views.from_git, name="git"),
    path("site/<slug:name>/releases/<int:number>/publish", views.again, name="again"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/cancel", views.cancel, name="cancel"),
]
