"""Addresses of automatic certificates."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from panel.certificates import views

app_name = "certificates"
urlpatterns: list[URLPattern | URLResolver] = [
    path("accounts", views.accounts, name="accounts"),
    path("accounts/add", views.account_add, name="account_add"),
    path("accounts/<str:name>/delete", views.account_delete, name="account_delete"),
    path("sites/<str:name>", views.site, name="site"),
    path("sites/<str:name>/live", views.live, name="live"),
    path("sites/<str:name>/order", views.order, name="order"),
    path("sites/<str:name>/disable", views.disable, name="disable"),
]
