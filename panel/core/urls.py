from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.core import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.dashboard, name="dashboard"),
    path("search/", views.search, name="search"),
    path("help/", views.help_page, name="help"),
    path("healthz", views.health, name="health"),
]
