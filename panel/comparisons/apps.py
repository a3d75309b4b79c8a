from django.apps import AppConfig


class ComparisonsConfig(AppConfig):
    name = "panel.comparisons"
    label = "comparisons"
