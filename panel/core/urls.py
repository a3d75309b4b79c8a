from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.core.views import jobs, pages

urlpatterns: list[URLPattern | URLResolver] = [
    path("", pages.dashboard, name="dashboard"),
    path("search/", pages.search, name="search"),
    path("help/", pages.help_page, name="help"),
    path("jobs/<uuid:uuid>/", jobs.job, name="job"),
    path("jobs/<uuid:uuid>/live/", jobs.job_live, name="job-live"),
    path("jobs/<uuid:uuid>/events/", jobs.job_events, name="job-events"),
    path("healthz", pages.health, name="health"),
]
