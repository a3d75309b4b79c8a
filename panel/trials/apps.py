from django.apps import AppConfig


class TrialsConfig(AppConfig):
    name = "panel.trials"
    label = "trials"
