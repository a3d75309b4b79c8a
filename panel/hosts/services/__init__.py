"""Services for hosts, their web servers, and jobs."""

from panel.hosts.services.authorities import authority_create, authority_delete
from panel.hosts.services.hosts import (
    host_create,
    host_delete,
    host_offer_key,
    host_trust_key,
    host_update,
    hosts_pause,
    refuse_paused,
    register_local_host,
    register_ssh_host,
)
from panel.hosts.services.jobs import host_job_cancel, host_job_request, host_jobs_request
from panel.hosts.services.tags import hosts_tag, rows_tag
from panel.hosts.services.web_servers import web_server_adopt, web_server_create, web_server_delete, web_server_update

__all__ = [
    "authority_create",
    "authority_delete",
    "host_create",
    "host_delete",
    "host_job_cancel",
    "host_job_request",
    "host_jobs_request",
    "host_offer_key",
    "host_trust_key",
    "host_update",
    "hosts_pause",
    "hosts_tag",
    "refuse_paused",
    "register_local_host",
    "register_ssh_host",
    "rows_tag",
    "web_server_adopt",
    "web_server_create",
    "web_server_delete",
    "web_server_update",
]
