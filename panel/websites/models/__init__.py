"""Models of the desired state of sites, independent of a host's files and a web server's syntax.
List values are JSON in the format of the dataclasses in panel/rendering/spec.py; shapes.py validates them. Other
packages import models from here, never from a file of this package.
"""

from panel.websites.models.allowances import Allowance, AllowanceKind
from panel.websites.models.certificates import Certificate, CertificateSource
from panel.websites.models.locations import Handler, Location, Match, UpstreamProtocol
from panel.websites.models.php_pools import PhpPool
from panel.websites.models.raw_directives import RawSnippet
from panel.websites.models.server_blocks import ClientVerify, Gzip, Listen, LogFormat, LogLevel, ServerBlock, ServerName
from panel.websites.models.shared_settings import AccessList, DirectiveSet, HeaderSet, SharedSetting
from panel.websites.models.sites import Maintenance, Site
from panel.websites.models.stream_servers import Protocol, StreamRoute, StreamServer
from panel.websites.models.upstreams import Balancing, Upstream, UpstreamServer

__all__ = [
    "AccessList",
    "Allowance",
    "AllowanceKind",
    "Balancing",
    "Certificate",
    "CertificateSource",
    "ClientVerify",
    "DirectiveSet",
    "Gzip",
    "Handler",
    "HeaderSet",
    "Listen",
    "Location",
    "LogFormat",
    "LogLevel",
    "Maintenance",
    "Match",
    "PhpPool",
    "Protocol",
    "RawSnippet",
    "ServerBlock",
    "ServerName",
    "SharedSetting",
    "Site",
    "StreamRoute",
    "StreamServer",
    "Upstream",
    "UpstreamProtocol",
    "UpstreamServer",
]
