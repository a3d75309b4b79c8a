from django.apps import AppConfig


class CertificatesConfig(AppConfig):
    name = "panel.certificates"
    label = "certificates"

    def ready(self) -> None:
        from panel.certificates.job_kinds import JOB
        from panel.core.jobs import kind_add

        kind_add(JOB)
