from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "panel.reports"
    label = "reports"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.reports.job_kinds import JOB

        kind_add(JOB)
