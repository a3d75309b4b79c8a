"""URLs of the pages of sites. Site names contain no +, so a path segment that begins with + is never a site."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.comparisons import views as comparisons
from panel.deployments.views import revisions
from panel.websites.views import (
    actions,
    allowances,
    blocks,
    certificates,
    explain,
    insight,
    linting,
    lists,
    parts,
    shared,
    sites,
)

app_name = "websites"

_upstreams = {"kind": parts.UPSTREAMS}
_pools = {"kind": parts.POOLS}
_streams = {"kind": parts.STREAMS}
_lists = {"kind": shared.ACCESS_LISTS}
_headers = {"kind": shared.HEADER_SETS}
_directives = {"kind": shared.DIRECTIVE_SETS}

urlpatterns: list[URLPattern | URLResolver] = [
    path("", lists.site_list, name="list"),
    path("+new/", sites.site_create, name="create"),
    path("+bulk/", lists.bulk, name="bulk"),
    path("+delete/", lists.bulk_delete, name="bulk_delete"),
    path("+move/", lists.bulk_move, name="bulk_move"),
    path("+tags/", lists.bulk_tag, name="bulk_tag"),
    path("+shared/", allowances.shared_names, name="shared_names"),
    path("+allowances/<int:pk>/delete/", allowances.withdraw, name="allowance_delete"),
    path("+access-lists/", shared.shared_settings, _lists, name="access_lists"),
    path("+access-lists/+new/", shared.shared_setting_add, _lists, name="access_list_add"),
    path("+access-lists/<slug:name>/", shared.shared_setting, _lists, name="access_list"),
    path("+access-lists/<slug:name>/delete/", shared.shared_setting_delete, _lists, name="access_list_delete"),
    path("+header-sets/", shared.shared_settings, _headers, name="header_sets"),
    path("+header-sets/+new/", shared.shared_setting_add, _headers, name="header_set_add"),
    path("+header-sets/<slug:name>/", shared.shared_setting, _headers, name="header_set"),
    path("+header-sets/<slug:name>/delete/", shared.shared_setting_delete, _headers, name="header_set_delete"),
    path("+directive-sets/", shared.shared_settings, _directives, name="directive_sets"),
    path("+directive-sets/+new/", shared.directive_set_add, _directives, name="directive_set_add"),
    path("+directive-sets/<slug:name>/", shared.directive_set, _directives, name="directive_set"),
    path("+directive-sets/<slug:name>/delete/", shared.directive_set_delete, _directives, name="directive_set_delete"),
    path("+certificates/", certificates.certificates, name="certificates"),
    path("+certificates/+upload/", certificates.upload, name="certificate_upload"),
    path("+certificates/+self-signed/", certificates.self_sign, name="certificate_self_sign"),
    path("+certificates/<slug:name>/", certificates.certificate, name="certificate"),
    path("+certificates/<slug:name>/renew/", certificates.replace, name="certificate_replace"),
    path("+certificates/<slug:name>/pem/", certificates.file, name="certificate_file"),
    path("+certificates/<slug:name>/pkcs12/", certificates.export, name="certificate_export"),
    path("+certificates/<slug:name>/delete/", certificates.delete, name="certificate_delete"),
    path("<slug:name>/", sites.detail, name="detail"),
    path("<slug:name>/edit/", sites.edit, name="edit"),
    path("<slug:name>/clone/", sites.clone, name="clone"),
    path("<slug:name>/server/", actions.server, name="server"),
    path("<slug:name>/delete/", actions.delete, name="delete"),
    path("<slug:name>/history/", actions.history, name="history"),
    path("<slug:name>/history/<int:number>/", revisions.revision, name="revision"),
    path("<slug:name>/history/<int:number>/set-back/", revisions.set_back, name="set_back"),
    path("<slug:name>/fix/", linting.fix, name="fix"),
    path("<slug:name>/enable/", sites.enable, name="enable"),
    path("<slug:name>/blocks/", blocks.blocks, name="blocks"),
    path("<slug:name>/blocks/+new/", blocks.block_add, name="block_add"),
    path("<slug:name>/blocks/<int:pk>/", blocks.block, name="block"),
    path("<slug:name>/blocks/<int:pk>/delete/", blocks.block_delete, name="block_delete"),
    path("<slug:name>/blocks/<int:pk>/locations/+new/", blocks.location_add, name="location_add"),
    path("<slug:name>/locations/<int:pk>/", blocks.location, name="location"),
    path("<slug:name>/locations/<int:pk>/move/", blocks.location_move, name="location_move"),
    path("<slug:name>/locations/<int:pk>/delete/", blocks.location_delete, name="location_delete"),
    path("<slug:name>/snippets/+new/", blocks.snippet_add, name="snippet_add"),
    path("<slug:name>/snippets/<int:pk>/", blocks.snippet, name="snippet"),
    path("<slug:name>/snippets/<int:pk>/delete/", blocks.snippet_delete, name="snippet_delete"),
    path("<slug:name>/upstreams/", parts.part_list, _upstreams, name="upstreams"),
    path("<slug:name>/upstreams/+new/", parts.part_add, _upstreams, name="upstreams_add"),
    path("<slug:name>/upstreams/<int:pk>/", parts.part_edit, _upstreams, name="upstreams_edit"),
    path("<slug:name>/upstreams/<int:pk>/delete/", parts.part_delete, _upstreams, name="upstreams_delete"),
    path("<slug:name>/php/", parts.part_list, _pools, name="php"),
    path("<slug:name>/php/+new/", parts.part_add, _pools, name="php_add"),
    path("<slug:name>/php/<int:pk>/", parts.part_edit, _pools, name="php_edit"),
    path("<slug:name>/php/<int:pk>/delete/", parts.part_delete, _pools, name="php_delete"),
    path("<slug:name>/streams/", parts.part_list, _streams, name="streams"),
    path("<slug:name>/streams/+new/", parts.part_add, _streams, name="streams_add"),
    path("<slug:name>/streams/<int:pk>/", parts.part_edit, _streams, name="streams_edit"),
    path("<slug:name>/streams/<int:pk>/delete/", parts.part_delete, _streams, name="streams_delete"),
    path("<slug:name>/explain/", explain.explain, name="explain"),
    path("<slug:name>/raw/", insight.raw, name="raw"),
    path("<slug:name>/logs/", insight.logs, name="logs"),
    path("<slug:name>/requests/", insight.requests, name="requests"),
    path("<slug:name>/traffic/", insight.traffic, name="traffic"),
    path("<slug:name>/benchmarks/", insight.benchmarks, name="benchmarks"),
    path("<slug:name>/servers/", comparisons.site_comparisons, name="comparisons"),
    path("<slug:name>/servers/replay/", comparisons.replay, name="comparisons_replay"),
    path("<slug:name>/tls/", certificates.tls, name="tls"),
]
