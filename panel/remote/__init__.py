import sys

# Paramiko imports `invoke` for "Match exec" in an ssh_config, which the panel never reads: 45 modules and 2.4 MB of
# every process. With None in its place that import fails, as where it is not installed.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
