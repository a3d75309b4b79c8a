"""URLs of the pages of virtual addresses."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.failover import views

app_name = "failover"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.address_list, name="list"),
    path("+new", views.add, name="add"),
    path("<slug:name>", views.detail, name="detail"),
    path("<slug:name>/apply", views.apply, name="apply"),
    path("<slug:name>/withdraw", views.withdraw, name="withdraw"),
    path("<slug:name>/delete", views.delete, name="delete"),
]
