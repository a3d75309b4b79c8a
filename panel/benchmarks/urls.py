from django.urls import URLPattern, URLResolver, path

from panel.benchmarks import views, views_scenarios, views_suites

app_name = "benchmarks"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.run_list, name="list"),
    path("new", views.run_create, name="run-create"),
    path("compare", views.compare, name="compare"),
    path("scenarios", views_scenarios.scenario_list, name="scenarios"),
    path("scenarios/quick", views_scenarios.quick, name="quick"),
    path("scenarios/new", views_scenarios.scenario_create, name="scenario-new"),
    path("scenarios/new/<slug:tool>", views_scenarios.scenario_create, name="scenario-create"),
    path("scenarios/check/<slug:tool>", views_scenarios.scenario_check, name="scenario-check"),
    path("scenarios/check/<slug:tool>/<int:pk>", views_scenarios.scenario_check, name="scenario-check"),
    path("scenarios/<int:pk>", views_scenarios.scenario_detail, name="scenario"),
    path("scenarios/<int:pk>/edit", views_scenarios.scenario_edit, name="scenario-edit"),
    path("scenarios/<int:pk>/delete", views_scenarios.scenario_delete, name="scenario-delete"),
    path("suites", views_suites.suite_list, name="suites"),
    path("suites/<slug:suite>/start", views_suites.suite_start, name="suite-start"),
    path("suites/<uuid:uuid>", views_suites.suite_detail, name="suite"),
    path("suites/<uuid:uuid>/live", views_suites.suite_live, name="suite-live"),
    path("suites/<uuid:uuid>/events", views_suites.suite_event_stream, name="suite-events"),
    path("suites/<uuid:uuid>/cancel", views_suites.suite_cancel, name="suite-cancel"),
    path("suites/<uuid:uuid>/again", views_suites.suite_again, name="suite-again"),
    path("suites/<uuid:uuid>/delete", views_suites.suite_delete, name="suite-delete"),
    path("suites/<uuid:uuid>/export.json", views_suites.suite_json, name="suite-json"),
    path("suites/<uuid:uuid>/report.html", views_suites.suite_report, name="suite-report"),
    path("suites/<uuid:uuid>/export.csv", views_suites.suite_csv, name="suite-csv"),
    path("<uuid:uuid>", views.detail, name="detail"),
    path("<uuid:uuid>/live", views.live, name="live"),
    path("<uuid:uuid>/events", views.events, name="events"),
    path("<uuid:uuid>/cancel", views.cancel, name="cancel"),
    path("<uuid:uuid>/again", views.again, name="again"),
    path("<uuid:uuid>/delete", views.delete, name="delete"),
    path("<uuid:uuid>/output/<int:position>/<int:number>", views.output, name="output"),
    path("<uuid:uuid>/export.json", views.export_json, name="export-json"),
    path("<uuid:uuid>/export.csv", views.export_csv, name="export-csv"),
]
