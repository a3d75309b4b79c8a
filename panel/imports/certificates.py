"""Read the certificates of imported sites from the files named in the configuration, and store them in the panel with
their keys. Certificates that another program renews on the host stay there; sites keep naming their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from django.core.exceptions import ValidationError
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.core.errors import ApplicationError
from panel.hosts.models import Host
from panel.hosts.targets import target_for
from panel.imports.mapping.common import free_name, slug
from panel.imports.models import Import, ImportSource
from panel.imports.report import CertificateFiles, FoundSite
from panel.imports.sources import HostFiles
from panel.remote import pool
from panel.websites.certificates import bundle_read, public_read
from panel.websites.models import Certificate
from panel.websites.services import certificate_refer, certificate_upload

# Folders in which ACME programs keep what they renew: certbot, acme.sh, dehydrated, lego.
RENEWED_BELOW = re.compile(
    r"/etc/letsencrypt/live/|(?:/[^/]+)*/\.acme\.sh/|/(?:etc|var/lib)/dehydrated/|(?:/[^/]+)*/\.?lego/certificates/"
)
Bundles = dict[CertificateFiles, tuple[str, str]]  # certificate with chain, private key; both as PEM


def read(record: Import, sites: Iterable[FoundSite]) -> tuple[Bundles, list[str]]:
    """Read the certificates that imported sites name. Return {files: (certificate chain, key)}, and notes about
    certificates that could not be read. The key is "" if another program on the host renews the certificate. Raises
    RemoteError.

    Certificates of an uploaded configuration are not read, because uploads have no private keys.
    """
    wanted = {files: site.name for site in sites for files in site.certificates}
    if not wanted:
        return {}, []
    if record.source != ImportSource.HOST:
        return {}, [
            f"{name}: upload the site's certificate, then choose the certificate in the server block"
            for name in sorted(set(wanted.values()))
        ]
    found: Bundles = {}
    notes: list[str] = []
    paths = record.web_server.paths
    with pool.session(target_for(record.web_server.host)) as agent:
        host = HostFiles(agent, (paths["config_root"], paths.get("prefix", "")))
        for files, name in wanted.items():
            key = "" if is_renewed_there(files) else files.key
            texts = [host.find(path) if path else [] for path in (files.certificate, files.chain, key)]
            if not texts[0] or not (texts[2] or not key):
                missing = files.certificate if not texts[0] else files.key
                notes.append(f"{name}: Paddock could not read {missing}; choose a certificate in the server block")
                continue
            chain = "\n".join(part[0].text for part in texts[:2] if part)
            found[files] = (chain, texts[2][0].text if key else "")
    return found, notes


def is_renewed_there(files: CertificateFiles) -> bool:
    """Return whether another program on the host, such as certbot, renews these certificate files. False if the chain
    is in a file of its own: a site names a single file, so Paddock stores its own copy of such certificates.
    """
    return not files.chain and RENEWED_BELOW.match(files.certificate) is not None


def keep(actor: User, team: Team, host: Host, site: FoundSite, bundles: Bundles) -> tuple[dict[int, str], list[str]]:
    """Store a site's certificates in the panel, or reuse equal certificates of the team. Return {index of the server
    block: name of its certificate}, and messages about certificates that could not be stored.
    """
    names: dict[int, str] = {}
    notes: list[str] = []
    for files in site.certificates:
        if files not in bundles:
            continue
        chain, key = bundles[files]
        try:
            if key:
                names[files.block] = _kept(actor, team, site, chain, key)
            else:
                names[files.block] = _referred(actor, team, host, files, chain)
        except ApplicationError as error:
            notes.append(f"{site.name}: {files.certificate}: {error.message}")
        except ValidationError as error:
            notes.append(f"{site.name}: {files.certificate}: {' '.join(error.messages)}")
    return names, notes


def _referred(actor: User, team: Team, host: Host, files: CertificateFiles, chain: str) -> str:
    paths = (files.certificate, files.key)
    known = Certificate.objects.filter(team=team, host=host, certificate_path=paths[0], key_path=paths[1]).first()
    if known is not None:
        return known.name
    name = free_name(
        _wanted(public_read(chain).names, files.certificate), Certificate.objects.values_list("name", flat=True)
    )
    return certificate_refer(actor=actor, team=team, name=name, host=host, paths=paths, certificate_pem=chain).name


def _wanted(names: Sequence[str], otherwise: str) -> str:
    return slug(names[0].strip("*.") if names else otherwise)


def _kept(actor: User, team: Team, site: FoundSite, chain: str, key: str) -> str:
    bundle = bundle_read(chain, key, now=timezone.now())
    known = Certificate.objects.filter(team=team, fingerprint=bundle.fingerprint).first()
    if known is not None:
        return known.name
    name = free_name(_wanted(bundle.names, site.name), Certificate.objects.values_list("name", flat=True))
    made = certificate_upload(actor=actor, team=team, name=name, certificate_pem=chain, private_key_pem=key)
    return made.name
