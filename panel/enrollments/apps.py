from django.apps import AppConfig


class EnrollmentsConfig(AppConfig):
    name = "panel.enrollments"
    label = "enrollments"
