"""Addresses of the pages of PHP-FPM pools, by the name of the site."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.fpm import views

app_name = "fpm"
urlpatterns: list[URLPattern | URLResolver] = [
    path("<slug:name>/", views.pool, name="pool"),
    path("<slug:name>/apply/", views.apply, name="apply"),
    path("<slug:name>/remove/", views.remove, name="remove"),
    path("<slug:name>/forget/", views.forget, name="forget"),
]
