"""URLs of the pages of PHP-FPM pools, below the URL of their site."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.fpm import views

app_name = "fpm"
urlpatterns: list[URLPattern | URLResolver] = [
    path("<slug:name>/fpm-pool/", views.pool, name="pool"),
    path("<slug:name>/fpm-pool/apply/", views.apply, name="apply"),
    path("<slug:name>/fpm-pool/remove/", views.remove, name="remove"),
    path("<slug:name>/fpm-pool/forget/", views.forget, name="forget"),
]
