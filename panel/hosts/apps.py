from django.apps import AppConfig


class HostsConfig(AppConfig):
    name = "panel.hosts"
    label = "hosts"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.hosts.job_kinds import JOB

        kind_add(JOB)
