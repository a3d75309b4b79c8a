"""URLs of server comparisons. The URL of a site's list of comparisons is in websites/urls.py."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.comparisons import views

app_name = "comparisons"
urlpatterns: list[URLPattern | URLResolver] = [
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/cancel", views.cancel, name="cancel"),
    path("<uuid:uuid>/again", views.again, name="again"),
    path("<uuid:uuid>/delete", views.delete, name="delete"),
    path("<uuid:uuid>/switch/<int:position>", views.switch, name="switch"),
    path("<uuid:uuid>/switch/<int:position>/plan", views.switch_plan, name="switch-plan"),
]
