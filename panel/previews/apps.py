from django.apps import AppConfig


class PreviewsConfig(AppConfig):
    name = "panel.previews"
    label = "previews"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.previews.job_kinds import JOB

        kind_add(JOB)
