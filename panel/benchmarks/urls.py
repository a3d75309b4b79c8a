from django.urls import URLPattern, URLResolver, path

from panel.benchmarks.views import runs, scenarios, suites

app_name = "benchmarks"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", runs.run_list, name="list"),
    path("new", runs.run_create, name="run-create"),
    path("compare", runs.compare, name="compare"),
    path("scenarios", scenarios.scenario_list, name="scenarios"),
    path("scenarios/quick", scenarios.quick, name="quick"),
    path("scenarios/new", scenarios.scenario_create, name="scenario-new"),
    path("scenarios/new/<slug:tool>", scenarios.scenario_create, name="scenario-create"),
    path("scenarios/check/<slug:tool>", scenarios.scenario_check, name="scenario-check"),
    path("scenarios/check/<slug:tool>/<int:pk>", scenarios.scenario_check, name="scenario-check"),
    path("scenarios/<int:pk>", scenarios.scenario_detail, name="scenario"),
    path("scenarios/<int:pk>/edit", scenarios.scenario_edit, name="scenario-edit"),
    path("scenarios/<int:pk>/delete", scenarios.scenario_delete, name="scenario-delete"),
    path("suites", suites.suite_list, name="suites"),
    path("suites/compare", suites.suite_compare, name="suite-compare"),
    path("suites/<slug:suite>/start", suites.suite_start, name="suite-start"),
    path("suites/<slug:suite>/expected", suites.suite_expected, name="suite-expected"),
    path("suites/<uuid:uuid>", suites.suite_detail, name="suite"),
    path("suites/<uuid:uuid>/cancel", suites.suite_cancel, name="suite-cancel"),
    path("suites/<uuid:uuid>/again", suites.suite_again, name="suite-again"),
    path("suites/<uuid:uuid>/delete", suites.suite_delete, name="suite-delete"),
    path("suites/<uuid:uuid>/export.json", suites.suite_json, name="suite-json"),
    path("suites/<uuid:uuid>/report.html", suites.suite_report, name="suite-report"),
    path("suites/<uuid:uuid>/export.csv", suites.suite_csv, name="suite-csv"),
    path("<uuid:uuid>", runs.detail, name="detail"),
    path("<uuid:uuid>/cancel", runs.cancel, name="cancel"),
    path("<uuid:uuid>/again", runs.again, name="again"),
    path("<uuid:uuid>/delete", runs.delete, name="delete"),
    path("<uuid:uuid>/output/<int:position>/<int:number>", runs.output, name="output"),
    path("<uuid:uuid>/export.json", runs.export_json, name="export-json"),
    path("<uuid:uuid>/export.csv", runs.export_csv, name="export-csv"),
]
