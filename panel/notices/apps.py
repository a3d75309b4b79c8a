from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "panel.notices"
    label = "notices"
