"""URLs of the pages of placements."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.placements import views

app_name = "placements"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.placement_list, name="list"),
    path("plan", views.plan, name="plan"),
    path("<slug:name>", views.placement, name="detail"),
    path("<slug:name>/delete", views.delete, name="delete"),
]
