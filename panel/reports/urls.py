from django.urls import URLPattern, URLResolver, path

from panel.reports.views import reports, schedules

app_name = "reports"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", reports.report_list, name="list"),
    path("create", reports.create, name="create"),
    path("schedules", schedules.schedule_list, name="schedules"),
    path("schedules/dates", schedules.dates, name="dates"),
    path("schedules/new", schedules.create, name="schedule-new"),
    path("schedules/new/<slug:kind>", schedules.create, name="schedule-create"),
    path("schedules/check/<slug:kind>", schedules.check, name="schedule-check"),
    path("schedules/check/<slug:kind>/<int:pk>", schedules.check, name="schedule-check"),
    path("schedules/<int:pk>", schedules.detail, name="schedule"),
    path("schedules/<int:pk>/edit", schedules.edit, name="schedule-edit"),
    path("schedules/<int:pk>/pause", schedules.pause, name="schedule-pause"),
    path("schedules/<int:pk>/resume", schedules.resume, name="schedule-resume"),
    path("schedules/<int:pk>/run", schedules.run_now, name="schedule-run"),
    path("schedules/<int:pk>/delete", schedules.delete, name="schedule-delete"),
    path("<uuid:uuid>", reports.detail, name="detail"),
    path("<uuid:uuid>/report.<slug:form>", reports.download, name="download"),
    path("<uuid:uuid>/send", reports.send, name="send"),
    path("<uuid:uuid>/delete", reports.delete, name="delete"),
]
