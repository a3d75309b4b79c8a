from django.apps import AppConfig


class WebsitesConfig(AppConfig):
    name = "panel.websites"
    label = "websites"
