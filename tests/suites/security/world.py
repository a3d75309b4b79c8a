"""One of everything, owned by one team, with marked secrets: whatever shows a mark to the wrong reader is a leak.

Every row has the key KEY or UUID, so that an address made from any pattern of the URLconf leads to something.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.utils import timezone

from panel.accounts.models import ApiToken, Role, SavedView, Team, User
from panel.accounts.services.tokens import token_create
from panel.audit.services import audit_record, snapshot
from panel.benchmarks.models import Round, Run, RunTarget, Scenario, SuiteRun
from panel.certificates.models import DnsAccount
from panel.comparisons.models import Comparison, Contender
from panel.deployments.models import (
    Blob,
    ChangeWindow,
    Deployment,
    DeploymentItem,
    Drift,
    PinnedFile,
    Revision,
    SiteState,
    Step,
)
from panel.deployments.plan import FileAction, Plan, PlanFile, PlanSite
from panel.enrollments.models import Enrollment
from panel.failover.models import VirtualAddress, VirtualAddressHost
from panel.fpm.models import FpmPool
from panel.hosts.models import Connection, Host, HostJob, SshAuthority, WebServer
from panel.imports.models import Import
from panel.imports.reading import Fault
from panel.imports.report import OUTCOMES, FoundSite, Item, Part, Report, to_json
from panel.placements.models import Placement
from panel.previews.models import Preview
from panel.publishing.models import Publication, Release
from panel.reports.document import Document
from panel.reports.document import to_json as document_json
from panel.reports.models import Delivery, Occurrence, Schedule, ScheduleSite
from panel.reports.models import Report as Told
from panel.rollouts.models import Part as RolloutPart
from panel.rollouts.models import Rollout, Wave
from panel.websites.models import (
    AccessList,
    Allowance,
    AllowanceKind,
    Certificate,
    DirectiveSet,
    HeaderSet,
    Listen,
    Location,
    Maintenance,
    PhpPool,
    RawSnippet,
    ServerBlock,
    ServerName,
    Site,
    Upstream,
    UpstreamServer,
)

KEY = 7001
RUN = UUID("70010000-0000-4000-8000-000000000001")
DEPLOYMENT = UUID("70010000-0000-4000-8000-000000000002")
OPERATION = UUID("70010000-0000-4000-8000-000000000003")
COMPARISON = UUID("70010000-0000-4000-8000-000000000004")
SUITE = UUID("70010000-0000-4000-8000-000000000005")
IMPORT = UUID("70010000-0000-4000-8000-000000000006")
REPORT = UUID("70010000-0000-4000-8000-000000000007")
ROLLOUT = UUID("70010000-0000-4000-8000-000000000008")
PREVIEW = UUID("70010000-0000-4000-8000-000000000009")
PUBLICATION = UUID("70010000-0000-4000-8000-00000000000a")
NAME = "zzz-owned"
HOST = "zhost"
ADDRESS = "entry-address"  # a virtual address; the teams of its hosts see it
BCRYPT = "$2y$12$" + "SECRETbasicauth".ljust(53, "a")
HOST_KEY = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
SECRETS = {
    "host key": HOST_KEY.splitlines()[2],
    "host password": "SECRET-HOST-PASSWORD",
    "sudo password": "SECRET-SUDO-PASSWORD",
    "certificate key": "SECRET-CERTIFICATE-KEY",
    "basic auth hash": BCRYPT,
    "secret file": "SECRET-FILE-CONTENT",
    "webhook secret": "SECRET-WEBHOOK-SECRET",
    "hook": "SECRET-HOOK-TOKEN",
    "dns key": "SECRET-DNS-KEY",
    "totp": "SECRETTOTPSECRET",
    "recovery code": "SECRET-RECOVERY-DIGEST",
    "password hash": "SECRETHASH",
}
PLAIN_FILE = "server { listen 80; } # zzz-owned"
_TIME = timezone.now()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class World:
    team: Team
    admin: User
    owner: User
    viewer: User
    outsider: User
    token: str  # of the owner
    site: Site
    host: Host

    @property
    def secrets(self) -> dict[str, str]:
        row = ApiToken.objects.get(pk=KEY)
        return SECRETS | {"token": self.token, "token digest": row.digest}


def _user(name: str, role: Role, *teams: Team) -> User:
    row = User(username=name, role=role, totp_secret=SECRETS["totp"], totp_confirmed_at=_TIME)
    row.password = f"md5$salt${SECRETS['password hash']}"
    row.recovery_codes = [SECRETS["recovery code"]]
    row.save()
    row.teams.set(teams)
    return row


def build() -> World:
    team = Team.objects.create(pk=KEY, name="Owners", slug="owners")
    other = Team.objects.create(pk=KEY + 1, name="Others", slug="others")
    admin, owner = _user("ada", Role.ADMIN), _user("olaf", Role.OPERATOR, team)
    viewer, outsider = _user("vera", Role.VIEWER, team), _user("otto", Role.OPERATOR, other)
    _made, plain = token_create(actor=owner, name="ci", scopes=["read"])
    ApiToken.objects.filter(user=owner).update(id=KEY)
    SavedView.objects.create(pk=KEY, user=owner, page=SavedView.Page.SITES, name=NAME, query=f"q={NAME}")
    host, web_server = _host()
    site = _site(team, web_server)
    Allowance.objects.create(pk=KEY, kind=AllowanceKind.SERVICE, value=f"unix:/run/{NAME}", team=team, host=host)
    _deployments(site, web_server, owner)
    _rollout(owner)
    AccessList.objects.create(pk=KEY, name=NAME, team=team, sources=["192.0.2.7"])
    HeaderSet.objects.create(pk=KEY, name=NAME, team=team, headers=[{"name": "X-Zzz", "value": "zzz-owned"}])
    DirectiveSet.objects.create(pk=KEY, name=NAME, team=team, engine="nginx", text="add_header X-Zzz zzz-owned;")
    DnsAccount.objects.create(
        pk=KEY,
        name=NAME,
        team=team,
        kind="rfc2136",
        settings=json.dumps({"server": "127.0.0.1:9", "key_name": "k", "secret": SECRETS["dns key"]}),
    )
    _benchmarks(site, web_server, team)
    HostJob.objects.create(
        pk=KEY, uuid=OPERATION, host=host, kind="check", status="succeeded", finished_at=_TIME, requested_by=admin
    )
    _reports(site, owner)
    _import(web_server, admin)
    audit_record(actor=owner, action="site.create", target=site, after=snapshot(site))
    audit_record(actor=admin, action="host.create", target=host, after=snapshot(host))
    audit_record(actor=admin, action="user.create", target=owner, after=snapshot(owner))
    from panel.audit.models import AuditEntry

    AuditEntry.objects.filter(action="site.create").update(id=KEY)
    return World(team, admin, owner, viewer, outsider, plain, site, host)


def _rollout(owner: User) -> None:
    deployment = Deployment.objects.get(uuid=DEPLOYMENT)
    hook = f"https://hooks.example/{SECRETS['hook']}"
    values = {"pk": KEY, "uuid": ROLLOUT, "status": "paused", "requested_by": owner, "hook_url": hook}
    rollout = Rollout.objects.create(batch=deployment.batch, **values)
    wave = Wave.objects.create(pk=KEY, rollout=rollout, position=1, status="approval")
    RolloutPart.objects.create(pk=KEY, wave=wave, deployment=deployment)
    Maintenance.objects.create(pk=KEY, site=Site.objects.get(name=NAME), text="Soon")
    ChangeWindow.objects.create(
        pk=KEY, name="Night", kind="weekly", weekdays=[0], opens_at="22:00", closes_at="23:00", tags=["nowhere"]
    )
    ends = _TIME + timedelta(days=1)
    Enrollment.objects.create(
        pk=KEY, digest="0" * 64, created_by=User.objects.get(username="ada"), expires_at=ends, tags=["nowhere"]
    )
    SshAuthority.objects.create(pk=KEY, name=NAME, kind="host", public_key="ssh-ed25519 AAAA")
    address = VirtualAddress.objects.create(
        pk=KEY, name=ADDRESS, address="192.0.2.200/24", router_id=200, check_url="http://www.example/"
    )
    VirtualAddressHost.objects.create(
        virtual_address=address, host=Host.objects.get(pk=KEY), address="192.0.2.1", position=0
    )
    FpmPool.objects.create(
        pk=KEY,
        site=Site.objects.get(name=NAME),
        host=Host.objects.get(pk=KEY),
        name=f"paddock-{NAME}",
        php_version="8.2",
        account=NAME,
        folder="/srv/www/zzz",
    )
    Placement.objects.create(pk=KEY, site=Site.objects.get(name=NAME), tags=["nowhere"])
    change = {"kind": "status", "name": "", "before": "200", "after": "404"}
    found = {"method": "GET", "url": f"http://{NAME}.example/a", "changes": [change]}
    result = {"site": NAME, "asked": 1, "logged": 1, "differences": [found], "unlisted": 0, "error": "", "notes": []}
    release = Release.objects.create(
        pk=KEY,
        site=Site.objects.get(name=NAME),
        number=1,
        source="archive",
        origin="a.zip",
        sha256="0" * 64,
        size=1,
        unpacked_size=1,
        file_count=1,
    )
    Publication.objects.create(
        pk=KEY, uuid=PUBLICATION, site=release.site, release=release, status="succeeded", requested_by=owner
    )
    Preview.objects.create(
        pk=KEY, uuid=PREVIEW, deployment=deployment, status="succeeded", sites=[result], requested_by=owner
    )


def _host() -> tuple[Host, WebServer]:
    host = Host.objects.create(
        pk=KEY,
        name=HOST,
        connection=Connection.SSH,
        address="127.0.0.1",
        port=1,
        username="root",
        status="unreachable",
        site_roots=["/srv/www"],
        private_key=HOST_KEY,
        password=SECRETS["host password"],
        use_sudo=True,
        sudo_password=SECRETS["sudo password"],
    )
    paths = {
        "binary": "/usr/sbin/nginx",
        "prefix": "/etc/nginx",
        "main_config": "/etc/nginx/nginx.conf",
        "config_root": "/etc/nginx",
        "log_dir": "/var/log/nginx",
        "pid_file": "/run/nginx.pid",
    }
    web_server = WebServer.objects.create(pk=KEY, host=host, engine="nginx", layout="sites", paths=paths)
    return host, web_server


def _site(team: Team, web_server: WebServer) -> Site:
    site = Site.objects.create(pk=KEY, name=NAME, team=team, web_server=web_server)
    certificate = Certificate.objects.create(
        pk=KEY,
        name=NAME,
        team=team,
        source="uploaded",
        certificate_pem="-----BEGIN CERTIFICATE-----",
        private_key_pem=SECRETS["certificate key"],
        names=[f"{NAME}.example"],
        issuer="CN=test",
        fingerprint="0" * 64,
        not_before=_TIME,
        not_after=_TIME,
    )
    block = ServerBlock.objects.create(pk=KEY, site=site, root="/srv/www/zzz", certificate=certificate)
    Listen.objects.create(block=block, port=443, tls=True)
    ServerName.objects.create(block=block, name=f"{NAME}.example")
    upstream = Upstream.objects.create(pk=KEY, site=site, name=NAME)
    UpstreamServer.objects.create(upstream=upstream, address="127.0.0.1:3000")
    PhpPool.objects.create(pk=KEY, site=site, name=NAME, address="127.0.0.1:9000")
    Location.objects.create(pk=KEY, block=block, pattern="/", basic_auth_realm="r", basic_auth_users={"anna": BCRYPT})
    RawSnippet.objects.create(pk=KEY, site=site, engine="nginx", block=block, text="add_header X-Zzz zzz-owned;")
    return site


def _files() -> list[dict[str, Any]]:
    """The two files of the one revision, as they are stored: a plain one and a secret one."""
    secret, plain = SECRETS["secret file"], PLAIN_FILE
    for text, hidden in ((secret, True), (plain, False)):
        Blob.objects.create(sha256=digest(text), content=text, is_secret=hidden, size=len(text))
    return [
        {"path": "/etc/nginx/zzz.conf", "mode": 420, "sha256": digest(plain), "secret": False, "link": ""},
        {"path": "/etc/nginx/zzz.key", "mode": 384, "sha256": digest(secret), "secret": True, "link": ""},
    ]


def _plan(site: Site, web_server: WebServer, files: list[dict[str, Any]]) -> Plan:
    put = {"site": NAME, "web_server": web_server.pk, "action": FileAction.PUT}
    return Plan(
        sites=[PlanSite(id=site.pk, name=NAME, web_server=str(web_server), number=1)],
        web_servers=[web_server.pk],
        files=[PlanFile(**row, **put) for row in files],
    )


def _deployments(site: Site, web_server: WebServer, owner: User) -> None:
    files = _files()
    spec = {"name": NAME, "blocks": [], "upstreams": [], "php_pools": []}
    revision = Revision.objects.create(
        pk=KEY, site=site, number=1, web_server=web_server, spec=spec, files=files, digest="d" * 64, created_by=owner
    )
    SiteState.objects.create(site=site, status="live", revision=revision, deployed_at=_TIME)
    deployment = Deployment.objects.create(
        pk=KEY,
        uuid=DEPLOYMENT,
        batch=DEPLOYMENT,
        host=web_server.host,
        status="succeeded",
        plan=_plan(site, web_server, files),
        requested_by=owner,
        confirmed_at=_TIME,
        started_at=_TIME,
        finished_at=_TIME,
    )
    DeploymentItem.objects.create(deployment=deployment, site=site, revision=revision)
    Step.objects.create(
        deployment=deployment, position=0, name="test", status="succeeded", output="ok", started_at=_TIME
    )
    _drifted(site, web_server, owner)


def _drifted(site: Site, web_server: WebServer, owner: User) -> None:
    """The secret file was edited on the host; the plain one's edit was adopted."""
    Drift.objects.create(
        pk=KEY,
        site=site,
        web_server=web_server,
        path="/etc/nginx/zzz.key",
        expected_sha256=digest(SECRETS["secret file"]),
        found_sha256="f" * 64,
    )
    path = "/etc/nginx/zzz.conf"
    PinnedFile.objects.create(
        pk=KEY, site=site, web_server=web_server, path=path, blob_id=digest(PLAIN_FILE), adopted_by=owner
    )


def _reports(site: Site, owner: User) -> None:
    """A schedule, a date of it, its report, and that on its way to a webhook."""
    schedule = Schedule.objects.create(
        pk=KEY,
        name=NAME,
        team=site.team,
        cron="0 2 * * *",
        kind="scenario",
        scenario_id=KEY,
        run_as=owner,
        webhook_url="https://hooks.example/zzz-owned",
        webhook_secret=SECRETS["webhook secret"],
    )
    ScheduleSite.objects.create(schedule=schedule, position=0, site=site, name=NAME)
    occurrence = Occurrence.objects.create(schedule=schedule, due_at=_TIME, status="finished", run_id=KEY)
    document = Document(title=NAME, made_at="2026-01-01 02:00 UTC", outcome="failed", headline="zzz-owned failed")
    report = Told.objects.create(
        pk=KEY,
        uuid=REPORT,
        schedule=schedule,
        occurrence=occurrence,
        team=site.team,
        title=NAME,
        outcome="failed",
        headline=document.headline,
        content=document_json(document),
    )
    report.teams.add(site.team)
    Delivery.objects.create(
        report=report, channel="webhook", target=schedule.webhook_url, status="failed", due_at=_TIME
    )


def _import(web_server: WebServer, admin: User) -> None:
    """A reading that found one site, whose configuration names it."""
    block = {"listens": [{"port": 80, "address": "::"}], "names": [f"{NAME}.example"], "locations": []}
    found = FoundSite(NAME, {"name": NAME, "upstreams": [], "php_pools": [], "blocks": [block]})
    found.folders, found.parts = ["/data/zzz"], [Part("/etc/nginx/zzz.conf", 1, 1)]
    for number, outcome in enumerate(OUTCOMES, 1):
        found.items.append(Item("/etc/nginx/zzz.conf", number, PLAIN_FILE, outcome, "a note"))
    report = Report("nginx", [found], found.items[-1:], [Fault("/etc/nginx/odd.conf", 3, "is never closed")], files=2)
    content = json.dumps({"report": to_json(report), "files": {}})
    Import.objects.create(
        pk=KEY, uuid=IMPORT, web_server=web_server, source="host", content=content, sites_found=1, created_by=admin
    )


def _benchmarks(site: Site, web_server: WebServer, team: Team) -> None:
    """A scenario with a run that failed, a suite that ended, and a comparison of the site."""
    parameters = {
        "name": NAME,
        "tool": "ab",
        "arguments": {"requests": 100, "concurrency": 1, "keepalive": True, "tls": False},
        "paths": ["/"],
        "rounds": 1,
        "warmup_s": 0,
        "timeout_s": 60,
        "allowed_error_percent": 0.0,
    }
    scenario = Scenario.objects.create(pk=KEY, team=team, **parameters)
    run = Run.objects.create(
        pk=KEY,
        uuid=RUN,
        scenario=scenario,
        title=NAME,
        parameters=parameters,
        status="failed",
        error="zzz-owned failed",
        started_at=_TIME,
        finished_at=_TIME,
    )
    target = RunTarget.objects.create(
        run=run,
        position=0,
        site=site,
        web_server=web_server,
        revision_id=KEY,
        label=NAME,
        base_url="http://127.0.0.1:80",
        engine="nginx",
    )
    Round.objects.create(pk=KEY, target=target, number=1, error="zzz-owned", finished_at=_TIME)
    _suite(web_server.host)
    _comparison(site, web_server, run)


def _suite(host: Host) -> None:
    SuiteRun.objects.create(
        pk=KEY,
        uuid=SUITE,
        suite="small-static-files",
        preset="short",
        host=host,
        host_name=host.name,
        title="Small static files",
        plan=[],
        status="finished",
        finished_at=_TIME,
    )


def _comparison(site: Site, web_server: WebServer, run: Run) -> None:
    ended = {"status": "failed", "error": "zzz-owned", "outcome": "failed"}
    comparison = Comparison.objects.create(pk=KEY, uuid=COMPARISON, site=site, load=run.parameters, run=run, **ended)
    Contender.objects.create(
        pk=KEY, comparison=comparison, position=0, web_server=web_server, label="nginx", status="same"
    )
    Contender.objects.create(
        pk=KEY + 1, comparison=comparison, position=1, web_server=web_server, label=NAME, status="different"
    )
