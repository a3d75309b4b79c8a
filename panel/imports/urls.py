"""URLs of imports, below the URL of their host."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.imports import views
from panel.imports.edits.views import adopt_edit

app_name = "imports"

urlpatterns: list[URLPattern | URLResolver] = [
    path("<slug:name>/imports/", views.start, name="start"),
    path("<slug:name>/imports/+read/", views.read, name="read"),
    path("<slug:name>/imports/+upload/", views.upload, name="upload"),
    path("<slug:name>/imports/+edit/<int:pk>/", adopt_edit, name="adopt_edit"),
    path("<slug:name>/imports/<uuid:uuid>/", views.report, name="report"),
    path("<slug:name>/imports/<uuid:uuid>/sites/<slug:site>/", views.site, name="site"),
    path("<slug:name>/imports/<uuid:uuid>/delete/", views.delete, name="delete"),
]
