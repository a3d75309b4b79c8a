from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "panel.reports"
    label = "reports"
