from django.apps import AppConfig


class PublishingConfig(AppConfig):
    name = "panel.publishing"
    label = "publishing"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.publishing.job_kinds import JOB

        kind_add(JOB)
