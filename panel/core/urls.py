from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.core.views import pages

urlpatterns: list[URLPattern | URLResolver] = [
    path("", pages.dashboard, name="dashboard"),
    path("search/", pages.search, name="search"),
    path("help/", pages.help_page, name="help"),
    path("healthz", pages.health, name="health"),
]
