from django.apps import AppConfig


class PublishingConfig(AppConfig):
    name = "panel.publishing"
    label = "publishing"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.deployments.planning import moves
        from panel.publishing.job_kinds import JOB
        from panel.publishing.kept import kept_warnings

        kind_add(JOB)
        if kept_warnings not in moves.notes:
            moves.notes.append(kept_warnings)
