from django.urls import URLPattern, URLResolver, path

from panel.deployments import views, views_drift

app_name = "deployments"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.deployment_list, name="list"),
    path("plan", views.plan, name="plan"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/confirm", views.confirm, name="confirm"),
    path("<uuid:uuid>/cancel", views.cancel, name="cancel"),
    path("<uuid:uuid>/again", views.plan_again, name="again"),
    path("<uuid:uuid>/live", views.live, name="live"),
    path("<uuid:uuid>/events", views.events, name="events"),
    path("sites/<slug:name>/rollback/<int:number>", views.rollback, name="rollback"),
    path("sites/<slug:name>/disable", views.disable, name="disable"),
    path("sites/<slug:name>/empty-cache", views.empty_cache, name="empty-cache"),
    path("sites/<slug:name>/overwrite", views_drift.overwrite, name="overwrite"),
    path("servers/<int:pk>/main-file", views.main_file, name="main-file"),
    path("drift", views_drift.drift_list, name="drift"),
    path("drift/checks", views_drift.checks, name="drift-checks"),
    path("drift/check", views_drift.check, name="drift-check"),
    path("drift/<int:pk>", views_drift.drift_detail, name="drift-detail"),
    path("drift/<int:pk>/adopt", views_drift.adopt, name="drift-adopt"),
    path("pins/<int:pk>/release", views_drift.release, name="pin-release"),
]
