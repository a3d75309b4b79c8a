from django.apps import AppConfig


class PlacementsConfig(AppConfig):
    name = "panel.placements"
    label = "placements"
