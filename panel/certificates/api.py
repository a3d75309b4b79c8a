"""REST endpoints of ACME accounts, DNS accounts, and automatic HTTPS."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, one
from panel.api.serializers import EmptySerializer
from panel.certificates import services
from panel.certificates.dns import services as dns_services
from panel.certificates.models import AcmeAccount, AutomaticCertificate, DnsAccount
from panel.certificates.selectors import accounts_visible, automatic_visible, dns_accounts_visible
from panel.certificates.serializers import (
    AcmeAccountInput,
    AcmeAccountSerializer,
    AutomaticHttpsInput,
    AutomaticHttpsSerializer,
    DnsAccountChange,
    DnsAccountInput,
    DnsAccountSerializer,
    DnsTestInput,
    RevokeInput,
)
from panel.websites.models import Site
from panel.websites.selectors import sites_visible


class AcmeAccounts(Resource):
    """ACME accounts at certificate authorities. Their keys are never returned."""

    model = AcmeAccount
    serializer_class = AcmeAccountSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields = {"name": ["exact", "in"], "team__slug": ["exact", "in"], "issuer": ["exact"], "status": ["exact"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[AcmeAccount]:
        return accounts_visible(self.actor)

    @extend_schema(request=AcmeAccountInput, responses={201: AcmeAccountSerializer})
    def create(self, request: Request) -> Response:
        """Save an ACME account; its first order registers it. The team thereby agrees to the authority's terms of
        service.

        Only administrators can use another ACME directory (`issuer` "other").
        """
        made = services.account_create(actor=self.actor, **self.body(AcmeAccountInput))
        return self.answer(made, status=201, location=f"/api/v1/acme-accounts/{made.name}/")

    def destroy(self, request: Request, name: str = "") -> Response:
        row = self.get_object()
        services.account_delete(actor=self.actor, account=row, expected_version=self.expected_version(row))
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses=AcmeAccountSerializer)
    @action(detail=True, methods=["post"])
    def deactivate(self, request: Request, name: str = "") -> Response:
        """Deactivate the account at the certificate authority. This cannot be undone."""
        return self.answer(services.account_deactivate(actor=self.actor, account=self.get_object()))

    @extend_schema(request=EmptySerializer, responses=AcmeAccountSerializer)
    @action(detail=True, methods=["post"], url_path="change-key")
    def change_key(self, request: Request, name: str = "") -> Response:
        """Replace the key of the account at the certificate authority by a new one."""
        return self.answer(services.account_key_change(actor=self.actor, account=self.get_object()))


class DnsAccounts(Resource):
    """DNS accounts: access to DNS servers and providers, for DNS-01 challenges. Secret settings are never returned."""

    model = DnsAccount
    serializer_class = DnsAccountSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields = {"name": ["exact", "in"], "team__slug": ["exact", "in"], "kind": ["exact"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[DnsAccount]:
        return dns_accounts_visible(self.actor)

    @extend_schema(request=DnsAccountInput, responses={201: DnsAccountSerializer})
    def create(self, request: Request) -> Response:
        """Save a DNS account.

        `settings` depends on `kind`, for example server, key_name, algorithm and secret for rfc2136.
        """
        made = dns_services.dns_account_create(actor=self.actor, **self.body(DnsAccountInput))
        return self.answer(made, status=201, location=f"/api/v1/dns-accounts/{made.name}/")

    @extend_schema(request=DnsAccountChange, responses=DnsAccountSerializer)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Change the settings of a DNS account. Omitted settings keep their values."""
        row = self.get_object()
        values = self.body(DnsAccountChange)
        expected = self.expected_version(row)
        changed = dns_services.dns_account_update(actor=self.actor, account=row, expected_version=expected, **values)
        return self.answer(changed)

    def destroy(self, request: Request, name: str = "") -> Response:
        row = self.get_object()
        dns_services.dns_account_delete(actor=self.actor, account=row, expected_version=self.expected_version(row))
        return Response(status=204)

    @extend_schema(request=DnsTestInput, responses=DnsAccountSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, name: str = "") -> Response:
        """Test the account: write a record below a domain, query it on every authoritative server, and remove it.

        `problem` in the response is empty if all of this succeeded. The test can take two minutes.
        """
        values = self.body(DnsTestInput)
        return self.answer(dns_services.dns_account_test(actor=self.actor, account=self.get_object(), **values))


class AutomaticHttps(Resource):
    """Sites with automatic HTTPS, with the newest order of each."""

    model = AutomaticCertificate
    serializer_class = AutomaticHttpsSerializer
    lookup_field = "site__name"
    lookup_url_kwarg = "site"
    lookup_value_regex = "[^/]+"
    writes = Action.DEPLOY
    filter_fields = {"site__name": ["exact", "in"], "account__name": ["exact", "in"], "next_at": ["gte", "lte"]}
    ordering_fields = ("id", "next_at", "created_at")
    ordering = "id"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[AutomaticCertificate]:
        return automatic_visible(self.actor)

    def _accepted(self, site: Site) -> Response:
        location = f"/api/v1/automatic-https/{site.name}/"
        row = self.rows().get(site=site)
        return Response(AutomaticHttpsSerializer(row).data, status=202, headers={"Location": location})

    @extend_schema(request=AutomaticHttpsInput, responses={202: AutomaticHttpsSerializer})
    def create(self, request: Request) -> Response:
        """Turn on automatic HTTPS for a site: order a certificate, deploy the site with HTTPS, and renew the
        certificate from then on. The deployment includes all other changes in the site's draft. Needs the scopes sites
        and deploy.
        """
        values = self.body(AutomaticHttpsInput)
        site = one(sites_visible(self.actor), "name", values.pop("site"), "/site")
        account = one(accounts_visible(self.actor), "name", values.pop("account"), "/account")
        named = values.pop("dns")
        dns = one(dns_accounts_visible(self.actor), "name", named, "/dns") if named else None
        services.automatic_enable(actor=self.actor, site=site, account=account, dns=dns, **values)
        return self._accepted(site)

    def destroy(self, request: Request, site: str = "") -> Response:
        """Turn off automatic HTTPS. The current certificate stays in use until it expires."""
        services.automatic_disable(actor=self.actor, site=self.get_object().site)
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses={202: AutomaticHttpsSerializer})
    @action(detail=True, methods=["post"])
    def order(self, request: Request, site: str = "") -> Response:
        """Order a new certificate for the site now."""
        row = self.get_object()
        services.certificate_order(actor=self.actor, site=row.site)
        return self._accepted(row.site)

    @extend_schema(request=RevokeInput, responses={202: AutomaticHttpsSerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, site: str = "") -> Response:
        """Revoke the certificate at its authority. With `order_new`, order a new one with a new key at once."""
        row = self.get_object()
        services.certificate_revoke(actor=self.actor, site=row.site, **self.body(RevokeInput))
        return self._accepted(row.site)
