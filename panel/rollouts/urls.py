"""URLs of the pages of rollouts."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.rollouts import views

app_name = "rollouts"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.rollout_list, name="list"),
    path("start/<uuid:uuid>", views.start, name="start"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/pause", views.pause, name="pause"),
    path("<uuid:uuid>/resume", views.resume, name="resume"),
    path("<uuid:uuid>/approve", views.approve, name="approve"),
    path("<uuid:uuid>/end", views.end, name="end"),
    path("<uuid:uuid>/undo", views.undo, name="undo"),
]
