from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "panel.alerts"
    label = "alerts"
