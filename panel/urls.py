"""URLs of the panel; each app has a urls module."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("panel.core.urls")),  # dashboard, search, health
    path("", include("panel.accounts.urls")),  # setup, login, account, settings
    path("hosts/", include("panel.hosts.urls")),
    path("hosts/", include("panel.imports.urls")),  # of a host
    path("", include("panel.enrollments.urls")),
    path("sites/", include("panel.websites.urls")),
    path("sites/", include("panel.fpm.urls")),  # of a site
    path("deployments/", include("panel.deployments.urls")),
    path("rollouts/", include("panel.rollouts.urls")),
    path("placements/", include("panel.placements.urls")),
    path("virtual-addresses/", include("panel.failover.urls")),
    path("content/", include("panel.publishing.urls")),
    path("previews/", include("panel.previews.urls")),
    path("benchmarks/", include("panel.benchmarks.urls")),
    path("reports/", include("panel.reports.urls")),
    path("comparisons/", include("panel.comparisons.urls")),
    path("certificates/", include("panel.certificates.urls")),
    path("audit/", include("panel.audit.urls")),
    path("api/v1/", include("panel.api.urls")),
]

handler400 = "panel.core.views.pages.bad_request"
handler403 = "panel.core.views.pages.permission_denied"
handler404 = "panel.core.views.pages.page_not_found"
handler500 = "panel.core.views.pages.server_error"
