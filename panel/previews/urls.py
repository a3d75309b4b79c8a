"""URLs of previews."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.previews import views

app_name = "previews"
urlpatterns: list[URLPattern | URLResolver] = [
    path("request/<uuid:uuid>", views.request_preview, name="request"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/cancel", views.cancel, name="cancel"),
]
