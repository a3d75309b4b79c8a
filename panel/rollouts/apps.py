from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    name = "panel.rollouts"
    label = "rollouts"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.rollouts.job_kinds import JOB

        kind_add(JOB)
