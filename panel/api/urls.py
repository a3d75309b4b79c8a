"""URLs below /api/v1/."""

from django.contrib.auth.decorators import login_required
from django.urls import URLPattern, URLResolver, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.routers import SimpleRouter

from panel.accounts.api import MailServerView, MailTestView, MeView, SavedViews, SelfCheckView, Teams, Tokens, Users
from panel.alerts.api import AlertsView
from panel.api.schema import KeptGenerator
from panel.api.views.catalogue import NothingView, ProblemsView, ProblemView
from panel.api.views.jobs import JobCancelView, JobEventsView, JobView
from panel.api.views.search import SearchView
from panel.audit.api import Audit
from panel.benchmarks.api.runs import Runs, Scenarios
from panel.benchmarks.api.suites import Suites
from panel.certificates.api import AcmeAccounts, AutomaticHttps, DnsAccounts
from panel.certificates.on_disk.api import CertificateReadings, HostCertificates
from panel.comparisons.api import Comparisons
from panel.deployments.api.deployments import Deployments, Pins, Revisions
from panel.deployments.api.maintenance import Maintenances
from panel.deployments.api.sites import DeployableSites
from panel.deployments.api.web_servers import DeployableWebServers
from panel.deployments.api.windows import ChangeWindows
from panel.enrollments.api import Enrollments
from panel.failover.api import VirtualAddresses
from panel.fpm.api import FpmPools
from panel.hosts.api import HostJobs, Hosts, SshAuthorities
from panel.imports.api import Imports
from panel.imports.edits.api import Drifts
from panel.placements.api import Placements
from panel.previews.api import Previews
from panel.publishing.api import Publications, Releases
from panel.reports.api import Reports, Schedules
from panel.rollouts.api import Rollouts
from panel.websites.api.allowances import Allowances
from panel.websites.api.parts import Blocks, Locations, PhpPools, Snippets, StreamServers, Upstreams
from panel.websites.api.shared import AccessLists, DirectiveSets, HeaderSets
from panel.websites.api.sites import Certificates

app_name = "api"

router = SimpleRouter()
router.register("acme-accounts", AcmeAccounts, basename="acme-accounts")
router.register("automatic-https", AutomaticHttps, basename="automatic-https")
router.register("allowances", Allowances, basename="allowances")
router.register("audit", Audit, basename="audit")
router.register("blocks", Blocks, basename="blocks")
router.register("certificates", Certificates, basename="certificates")
router.register("deployments", Deployments, basename="deployments")
router.register("access-lists", AccessLists, basename="access-lists")
router.register("directive-sets", DirectiveSets, basename="directive-sets")
router.register("header-sets", HeaderSets, basename="header-sets")
router.register("dns-accounts", DnsAccounts, basename="dns-accounts")
router.register("change-windows", ChangeWindows, basename="change-windows")
router.register("drifts", Drifts, basename="drifts")
router.register("fpm-pools", FpmPools, basename="fpm-pools")
router.register("hosts", Hosts, basename="hosts")
router.register("ssh-authorities", SshAuthorities, basename="ssh-authorities")
router.register("imports", Imports, basename="imports")
router.register("maintenance", Maintenances, basename="maintenance")
router.register("virtual-addresses", VirtualAddresses, basename="virtual-addresses")
router.register("web-servers", DeployableWebServers, basename="web-servers")
router.register("locations", Locations, basename="locations")
router.register("certificate-readings", CertificateReadings, basename="certificate-readings")
router.register("host-certificates", HostCertificates, basename="host-certificates")
router.register("host-jobs", HostJobs, basename="host-jobs")
router.register("php-pools", PhpPools, basename="php-pools")
router.register("pins", Pins, basename="pins")
router.register("reports", Reports, basename="reports")
router.register("revisions", Revisions, basename="revisions")
router.register("rollouts", Rollouts, basename="rollouts")
router.register("enrollments", Enrollments, basename="enrollments")
router.register("placements", Placements, basename="placements")
router.register("previews", Previews, basename="previews")
router.register("publications", Publications, basename="publications")
router.register("releases", Releases, basename="releases")
router.register("runs", Runs, basename="runs")
router.register("saved-views", SavedViews, basename="saved-views")
router.register("scenarios", Scenarios, basename="scenarios")
router.register("schedules", Schedules, basename="schedules")
router.register("sites", DeployableSites, basename="sites")
router.register("snippets", Snippets, basename="snippets")
router.register("stream-servers", StreamServers, basename="stream-servers")
router.register("suites", Suites, basename="suites")
router.register("teams", Teams, basename="teams")
router.register("tokens", Tokens, basename="tokens")
router.register("comparisons", Comparisons, basename="comparisons")
router.register("upstreams", Upstreams, basename="upstreams")
router.register("users", Users, basename="users")

# The documentation page contains no data, but only signed-in users need it.
docs = login_required(
    SpectacularSwaggerSplitView.as_view(url_name="api:schema", template_name="api/docs.html", permission_classes=[])
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("attention/", AlertsView.as_view(), name="attention"),
    path("schema/", SpectacularAPIView.as_view(generator_class=KeptGenerator), name="schema"),
    path("docs/", docs, name="docs"),
    path("jobs/<uuid:uuid>/", JobView.as_view(), name="job"),
    path("jobs/<uuid:uuid>/cancel/", JobCancelView.as_view(), name="job-cancel"),
    path("jobs/<uuid:uuid>/events/", JobEventsView.as_view(), name="job-events"),
    path("mail-server/", MailServerView.as_view(), name="mail-server"),
    path("mail-server/test/", MailTestView.as_view(), name="mail-server-test"),
    path("me/", MeView.as_view(), name="me"),
    path("problems/", ProblemsView.as_view(), name="problems"),
    path("problems/<slug:kind>/", ProblemView.as_view(), name="problem"),
    path("self-check/", SelfCheckView.as_view(), name="self-check"),
    path("search/", SearchView.as_view(), name="search"),
    *router.urls,
    re_path("", NothingView.as_view(), name="nothing"),
]
