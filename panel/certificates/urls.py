"""URLs of the pages of ACME accounts, DNS accounts, and automatic HTTPS."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.certificates import dns_views, views
from panel.certificates.on_disk.views import on_host

app_name = "certificates"
urlpatterns: list[URLPattern | URLResolver] = [
    path("accounts", views.accounts, name="accounts"),
    path("accounts/add", views.account_add, name="account_add"),
    path("accounts/<str:name>/delete", views.account_delete, name="account_delete"),
    path("accounts/<str:name>/change-key", views.account_key_change, name="account_key_change"),
    path("accounts/<str:name>/deactivate", views.account_deactivate, name="account_deactivate"),
    path("calendar", views.calendar, name="calendar"),
    path("hosts/<str:name>", on_host, name="on_host"),
    path("sites/<str:name>/revoke", views.revoke, name="revoke"),
    path("dns", dns_views.accounts, name="dns_accounts"),
    path("dns/add/<str:kind>", dns_views.account_add, name="dns_account_add"),
    path("dns/<str:name>", dns_views.account, name="dns_account"),
    path("dns/<str:name>/test", dns_views.account_test, name="dns_account_test"),
    path("dns/<str:name>/delete", dns_views.account_delete, name="dns_account_delete"),
    path("sites/<str:name>", views.site, name="site"),
    path("sites/<str:name>/live", views.live, name="live"),
    path("sites/<str:name>/order", views.order, name="order"),
    path("sites/<str:name>/disable", views.disable, name="disable"),
]
