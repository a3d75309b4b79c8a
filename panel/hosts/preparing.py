"""Predefined applications of suites: list the packages that a host's distribution would install, and install them on
request.

The plan is a job, and so is the installation, which names its plan: the agent installs exactly these packages or
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from panel.core.jobs import JobStatus
from panel.hosts.models import APPLICATIONS, Host, HostJob, HostJobKind

# Packages whose service the distribution starts: possible dependencies of WordPress's packages.
_SERVICE = re.compile(r"(?:php[0-9.]*-fpm|apache2|httpd|nginx|lighttpd|mariadb-server|mysql-server)\Z")


def version(host: Host, application: str) -> str:
    """Version found by the last check of the host, "" if a part was missing."""
    found: str = host.facts.get("applications", {}).get(application, "")
    return found


def services(packages: list[dict[str, str]]) -> tuple[list[str], list[str]]:
    """Packages of a plan with a service, and those whose service is upgraded."""
    found = [package for package in packages if _SERVICE.match(package["name"])]
    return [item["name"] for item in found if not item["was"]], [item["name"] for item in found if item["was"]]


def checked(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate parameters: {"application"} requests a plan; with {"plan"}, the uuid of a plan with packages, it is
    carried out. Raises ValidationError.
    """
    if params.get("application") not in APPLICATIONS or not set(params) <= {"application", "plan"}:
        raise ValidationError({"application": f"Choose an application: {', '.join(APPLICATIONS)}."})
    if "plan" not in params:
        return {"application": params["application"]}
    planned = plans(host, params["application"]).filter(uuid=params["plan"]).first()
    if planned is None or not (planned.result or {}).get("packages"):
        raise ValidationError({"plan": "This plan installs no packages. Make a new plan first."})
    if planned.result["removed"]:
        gone = ", ".join(planned.result["removed"])
        raise ValidationError(
            {"plan": f"The installation would remove packages: {gone}. Resolve the conflict on the host."}
        )
    return {"application": params["application"], "plan": str(planned.uuid)}


def plans(host: Host, application: str) -> Any:
    """Existing plans, newest first."""
    rows = HostJob.objects.filter(host=host, kind=HostJobKind.PREPARE, status=JobStatus.SUCCEEDED)
    return rows.filter(params={"application": application})
