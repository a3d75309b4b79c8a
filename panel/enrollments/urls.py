"""URLs of enrollments: pages for administrators below /enrollments/, endpoints for new hosts below /enroll/."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.enrollments import views

app_name = "enrollments"
urlpatterns: list[URLPattern | URLResolver] = [
    path("enrollments/", views.enrollment_list, name="list"),
    path("enrollments/<int:pk>/revoke", views.revoke, name="revoke"),
    path("enroll/", views.enroll, name="enroll"),
    path("enroll/ready/", views.ready, name="ready"),
]
