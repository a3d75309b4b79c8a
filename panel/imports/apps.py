from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "panel.imports"
    label = "imports"
