from django.urls import URLPattern, URLResolver, path

from panel.deployments.views import deployments, drift, maintenance, windows

app_name = "deployments"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", deployments.deployment_list, name="list"),
    path("plan", deployments.plan, name="plan"),
    path("<uuid:uuid>", deployments.detail, name="detail"),
    path("<uuid:uuid>/confirm", deployments.confirm, name="confirm"),
    path("<uuid:uuid>/cancel", deployments.cancel, name="cancel"),
    path("<uuid:uuid>/again", deployments.plan_again, name="again"),
    path("sites/<slug:name>/rollback/<int:number>", deployments.rollback, name="rollback"),
    path("sites/<slug:name>/disable", deployments.disable, name="disable"),
    path("sites/<slug:name>/empty-cache", deployments.empty_cache, name="empty-cache"),
    path("sites/<slug:name>/overwrite", drift.overwrite, name="overwrite"),
    path("servers/<int:pk>/main-file", deployments.main_file, name="main-file"),
    path("windows", windows.window_list, name="windows"),
    path("windows/new", windows.window_edit, name="window-add"),
    path("windows/<int:pk>", windows.window_edit, name="window"),
    path("windows/<int:pk>/delete", windows.window_delete, name="window-delete"),
    path("maintenance", maintenance.start, name="maintenance"),
    path("maintenance/end", maintenance.end, name="maintenance-end"),
    path("drift", drift.drift_list, name="drift"),
    path("drift/checks", drift.checks, name="drift-checks"),
    path("drift/check", drift.check, name="drift-check"),
    path("drift/<int:pk>", drift.drift_detail, name="drift-detail"),
    path("drift/<int:pk>/adopt", drift.adopt, name="drift-adopt"),
    path("pins/<int:pk>/release", drift.release, name="pin-release"),
]
