from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "panel.deployments"
    label = "deployments"

    def ready(self) -> None:
        from panel.core.jobs import kind_add
        from panel.deployments.drift.services import drift_job
        from panel.deployments.guards import claims_deployed, paths_deployed, removal_guard
        from panel.deployments.job_kinds import JOB
        from panel.deployments.planning.live_versions import live_versions_follow
        from panel.hosts.execution import HANDLERS
        from panel.hosts.models import HostJobKind
        from panel.websites import ownership, versions
        from panel.websites.paths import deployed
        from panel.websites.services.base import removal_guards

        kind_add(JOB)
        HANDLERS[HostJobKind.DRIFT] = drift_job
        if removal_guard not in removal_guards:
            removal_guards.append(removal_guard)
        if paths_deployed not in deployed:
            deployed.append(paths_deployed)
        if claims_deployed not in ownership.deployed:
            ownership.deployed.append(claims_deployed)
        if live_versions_follow not in versions.followers:
            versions.followers.append(live_versions_follow)
