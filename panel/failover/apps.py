from django.apps import AppConfig


class FailoverConfig(AppConfig):
    name = "panel.failover"
    label = "failover"

    def ready(self) -> None:
        from panel.failover.execution import virtual_address_job
        from panel.failover.observing import host_observed
        from panel.failover.selectors import job_params, keepalived_edited
        from panel.hosts.edited_files import SOURCES
        from panel.hosts.execution import HANDLERS
        from panel.hosts.jobs import OBSERVERS
        from panel.hosts.models import HostJobKind
        from panel.hosts.services.jobs import PARAMS

        HANDLERS[HostJobKind.VIRTUAL_ADDRESS] = virtual_address_job
        PARAMS[HostJobKind.VIRTUAL_ADDRESS] = job_params
        if host_observed not in OBSERVERS:
            OBSERVERS.append(host_observed)
        if keepalived_edited not in SOURCES:
            SOURCES.append(keepalived_edited)
