"""Prepare hosts for predefined applications of benchmarks: list the packages that the distribution would install, and
install them on request.

The list is called the plan, and is the result of a job. The installation is a second job with the uuid of the first;
the agent installs exactly the packages of the plan, or nothing.
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
    """Return the version of an application that the last check of the host found; "" if a required package
    was missing.
    """
    found: str = host.facts.get("applications", {}).get(application, "")
    return found


def services(packages: list[dict[str, str]]) -> tuple[list[str], list[str]]:
    """Return two lists of names from a plan's packages: those that install a new service, and those that upgrade a
    service.
    """
    found = [package for package in packages if _SERVICE.match(package["name"])]
    return [item["name"] for item in found if not item["was"]], [item["name"] for item in found if item["was"]]


def checked(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate and return the parameters of a job that prepares a host.

    {"application"} requests a plan, the list of packages. {"application", "plan"} installs the packages of a plan,
    the uuid of an earlier job. Raises ValidationError, for example if the plan has no packages or would remove
    packages.
    """
    if params.get("application") not in APPLICATIONS or not set(params) <= {"application", "plan"}:
        raise ValidationError({"application": f"Choose an application: {', '.join(APPLICATIONS)}."})
    if "plan" not in params:
        return {"application": params["application"]}
    planned = plans(host, params["application"]).filter(uuid=params["plan"]).first()
    if planned is None or not (planned.result or {}).get("packages"):
        raise ValidationError({"plan": "This plan installs no packages. Make a new plan of the installation first."})
    if planned.result["removed"]:
        gone = ", ".join(planned.result["removed"])
        raise ValidationError(
            {
                "plan": f"The installation would remove these packages: {gone}. Resolve the conflict on the host, then "
                "make a new plan."
            }
        )
    return {"application": params["application"], "plan": str(planned.uuid)}


def plans(host: Host, application: str) -> Any:
    """Return the successful jobs that list the packages of an application on the host, newest first."""
    rows = HostJob.objects.filter(host=host, kind=HostJobKind.PREPARE, status=JobStatus.SUCCEEDED)
    return rows.filter(params={"application": application})
