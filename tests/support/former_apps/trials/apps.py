from django.apps import AppConfig


class FormerConfig(AppConfig):
    name = "tests.support.former_apps.trials"
    label = "trials"
