from django.apps import AppConfig


class BenchmarksConfig(AppConfig):
    name = "panel.benchmarks"
    label = "benchmarks"

    def ready(self) -> None:
        from panel.benchmarks.job_kinds import RUN, SUITE
        from panel.core.jobs import kind_add

        kind_add(RUN)
        kind_add(SUITE)
