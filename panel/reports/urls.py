from django.urls import URLPattern, URLResolver, path

from panel.reports import views, views_schedules

app_name = "reports"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.report_list, name="list"),
    path("create", views.create, name="create"),
    path("schedules", views_schedules.schedule_list, name="schedules"),
    path("schedules/dates", views_schedules.dates, name="dates"),
    path("schedules/new", views_schedules.create, name="schedule-new"),
    path("schedules/new/<slug:kind>", views_schedules.create, name="schedule-create"),
    path("schedules/check/<slug:kind>", views_schedules.check, name="schedule-check"),
    path("schedules/check/<slug:kind>/<int:pk>", views_schedules.check, name="schedule-check"),
    path("schedules/<int:pk>", views_schedules.detail, name="schedule"),
    path("schedules/<int:pk>/edit", views_schedules.edit, name="schedule-edit"),
    path("schedules/<int:pk>/pause", views_schedules.pause, name="schedule-pause"),
    path("schedules/<int:pk>/resume", views_schedules.resume, name="schedule-resume"),
    path("schedules/<int:pk>/run", views_schedules.run_now, name="schedule-run"),
    path("schedules/<int:pk>/delete", views_schedules.delete, name="schedule-delete"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/report.<slug:form>", views.download, name="download"),
    path("<uuid:uuid>/send", views.send, name="send"),
    path("<uuid:uuid>/delete", views.delete, name="delete"),
]
