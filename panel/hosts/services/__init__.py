"""Services for hosts, their web servers, and jobs."""

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
from panel.hosts.services.installs import install_adopt, install_create, install_delete, install_update
from panel.hosts.services.operations import operation_cancel, operation_request, operations_request
from panel.hosts.services.tags import hosts_tag, rows_tag

__all__ = [
    "host_create",
    "host_delete",
    "host_offer_key",
    "host_trust_key",
    "host_update",
    "hosts_pause",
    "hosts_tag",
    "install_adopt",
    "install_create",
    "install_delete",
    "install_update",
    "operation_cancel",
    "operation_request",
    "operations_request",
    "refuse_paused",
    "register_local_host",
    "register_ssh_host",
    "rows_tag",
]
