from django.apps import AppConfig


class ComparisonsConfig(AppConfig):
    name = "panel.comparisons"
    label = "comparisons"

    def ready(self) -> None:
        from panel.comparisons.job_kinds import JOB
        from panel.core.jobs import kind_add

        kind_add(JOB)
