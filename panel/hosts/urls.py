"""Addresses of hosts. A host's name holds no +, so what begins with one is never a host."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.hosts import views

app_name = "hosts"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.host_list, name="list"),
    path("<slug:name>/", views.detail, name="detail"),
    path("<slug:name>/live/", views.live, name="live"),
]
