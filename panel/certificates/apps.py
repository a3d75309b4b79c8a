from django.apps import AppConfig


class CertificatesConfig(AppConfig):
    name = "panel.certificates"
    label = "certificates"

    def ready(self) -> None:
        from panel.certificates.job_kinds import JOB
        from panel.certificates.on_disk.services import certificates_observed, certificates_read
        from panel.core.jobs import kind_add
        from panel.hosts.jobs import CHECKERS, OBSERVERS

        kind_add(JOB)
        if certificates_observed not in OBSERVERS:
            OBSERVERS.append(certificates_observed)
            CHECKERS.append(certificates_read)
