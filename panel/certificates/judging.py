"""Comparison of the certificates that a listener presents with the deployed ones. Pure: no I/O."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.websites.certificate_faults import faults_of, words_of_faults
from panel.websites.certificates import covers, names_of

MOST_NAMES = 3
MOST_LETTERS = 200


def problem_of(
    chain: Sequence[x509.Certificate], deployed: Sequence[x509.Certificate], name: str, now: dt.datetime
) -> str:
    """Describe what visitors of `name` get instead of the deployed certificate, or why browsers reject it. `name` is ""
    for a listener without names.

    The result is "" if the chain is as deployed and valid for the name. `deployed` is empty if the panel does not
    know the deployed chain. Faults and expiry of the deployed certificate itself are left out, because they have
    their own alerts.
    """
    if not chain:
        return _("Visitors get no certificate.")
    try:
        return " ".join(_problems(chain, deployed, name, now))
    except (ValueError, UnsupportedAlgorithm):  # certificates of other programs may contain anything
        return _("Visitors do not get the deployed certificate, but another one that Paddock cannot read.")


def _problems(
    chain: Sequence[x509.Certificate], deployed: Sequence[x509.Certificate], name: str, now: dt.datetime
) -> list[str]:
    leaf = chain[0]
    problems = []
    if deployed and leaf != deployed[0]:
        names = ", ".join(names_of(leaf)[:MOST_NAMES])[:MOST_LETTERS] or _("no domain name")
        words = _("Visitors get a different certificate than the deployed one: for %(names)s, valid until %(end)s.")
        problems.append(words % {"names": names, "end": f"{leaf.not_valid_after_utc:%Y-%m-%d}"})
    elif deployed and list(chain) != list(deployed):
        problems.append(_chain_words(len(chain) - 1, len(deployed) - 1))
    if name and not covers(names_of(leaf), name):
        problems.append(_("Visitors get a certificate that is not valid for this domain name."))
    if not deployed or leaf != deployed[0]:
        if leaf.not_valid_after_utc <= now:
            problems.append(_("The presented certificate has expired."))
        problems += words_of_faults(faults_of(chain))
    return problems


def _chain_words(presented: int, deployed: int) -> str:
    if presented == deployed:
        return _("Visitors get the certificate with a different chain than the deployed one.")
    words = ngettext(
        "Visitors get the certificate with %(presented)d chain certificate, but %(deployed)d is deployed.",
        "Visitors get the certificate with %(presented)d chain certificates, but %(deployed)d are deployed.",
        presented,
    )
    return words % {"presented": presented, "deployed": deployed}
