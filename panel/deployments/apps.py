from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "panel.deployments"
    label = "deployments"

    def ready(self) -> None:
        from panel.deployments.drift.services import drift_job
        from panel.deployments.guards import claims_standing, paths_standing, removal_guard
        from panel.deployments.planning.live_versions import live_versions_follow
        from panel.hosts.execution import HANDLERS
        from panel.hosts.models import HostJobKind
        from panel.websites import ownership, versions
        from panel.websites.paths import standing
        from panel.websites.services.base import removal_guards

        HANDLERS[HostJobKind.DRIFT] = drift_job
        if removal_guard not in removal_guards:
            removal_guards.append(removal_guard)
        if paths_standing not in standing:
            standing.append(paths_standing)
        if claims_standing not in ownership.standing:
            ownership.standing.append(claims_standing)
        if live_versions_follow not in versions.followers:
            versions.followers.append(live_versions_follow)
