from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "panel.deployments"
    label = "deployments"

    def ready(self) -> None:
        from panel.deployments.guards import removal_guard
        from panel.websites.services.base import removal_guards

        if removal_guard not in removal_guards:
            removal_guards.append(removal_guard)
