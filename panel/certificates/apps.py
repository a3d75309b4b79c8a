from django.apps import AppConfig


class CertificatesConfig(AppConfig):
    name = "panel.certificates"
    label = "certificates"
