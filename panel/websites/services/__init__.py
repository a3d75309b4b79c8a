"""Services that change the desired state of sites. All arguments are keyword-only; `actor` is the requesting user.
Each service checks permission (PermissionDenied), values (ValidationError keyed by field), and changes since
`expected_version` (Conflict); it writes an audit row and is one transaction.
"""

from panel.websites.services.allowances import allowance_create, allowance_delete
from panel.websites.services.blocks import (
    block_create,
    block_delete,
    block_update,
    location_create,
    location_delete,
    location_update,
    locations_reorder,
)
from panel.websites.services.certificates import (
    certificate_delete,
    certificate_export,
    certificate_issue,
    certificate_observed,
    certificate_refer,
    certificate_replace,
    certificate_revoked,
    certificate_self_sign,
    certificate_upload,
)
from panel.websites.services.definition import site_define, site_export
from panel.websites.services.following import upstreams_follow
from panel.websites.services.new_sites import site_from_preset
from panel.websites.services.parts import (
    php_pool_create,
    php_pool_delete,
    php_pool_update,
    snippet_create,
    snippet_delete,
    snippet_update,
    stream_server_create,
    stream_server_delete,
    stream_server_update,
    upstream_create,
    upstream_delete,
    upstream_update,
)
from panel.websites.services.shared import (
    shared_setting_create,
    shared_setting_delete,
    shared_setting_update,
)
from panel.websites.services.sites import (
    site_clone,
    site_create,
    site_delete,
    site_enable,
    site_update,
    site_web_server_set,
    sites_tag,
)

__all__ = [
    "allowance_create",
    "allowance_delete",
    "block_create",
    "block_delete",
    "block_update",
    "certificate_delete",
    "certificate_export",
    "certificate_issue",
    "certificate_observed",
    "certificate_refer",
    "certificate_replace",
    "certificate_revoked",
    "certificate_self_sign",
    "certificate_upload",
    "location_create",
    "location_delete",
    "location_update",
    "locations_reorder",
    "php_pool_create",
    "php_pool_delete",
    "php_pool_update",
    "shared_setting_create",
    "shared_setting_delete",
    "shared_setting_update",
    "site_clone",
    "site_create",
    "site_define",
    "site_delete",
    "site_enable",
    "site_export",
    "site_from_preset",
    "site_update",
    "site_web_server_set",
    "sites_tag",
    "snippet_create",
    "snippet_delete",
    "snippet_update",
    "stream_server_create",
    "stream_server_delete",
    "stream_server_update",
    "upstream_create",
    "upstream_delete",
    "upstream_update",
    "upstreams_follow",
]
