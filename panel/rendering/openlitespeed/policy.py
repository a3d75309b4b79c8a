"""Allow-list of raw OpenLiteSpeed directives.

Source: the keywords of src/util/configctx and plainconf.cpp.
"""

from __future__ import annotations

import re
from dataclasses import replace

from panel.rendering import confined
from panel.rendering.apache.ruling import rewrite_cond, rewrite_rule
from panel.rendering.kinds import KINDS, regex
from panel.rendering.policy import Kind, Policy, Where, reasons, table
from panel.rendering.readers import Unreadable
from panel.rendering.readers.apache import lines, words
from panel.rendering.readers.openlitespeed import read

# Contexts: v virtual host, c context, and one letter per block of _BLOCKS.
ALLOWED = table("""
# blocks
context{} v context
errorpage{} vc number
index{},expires{},rewrite{},accesscontrol{},hotlinkctrl{} vc text?
realm{} v text
userdb{},groupdb{} m
phpinioverride{} vc
websocket{} v uri
accesslog{},errorlog{} vc log?
lsrecaptcha{} v
# virtual host
adminemails v text
enablegzip,enablebr,enableipgeo v number
showversionnumber v number
# context
type c context_type
location cu folder
uri c uri
allowbrowse,enable,useserver,addmimetype,enableexpires,autoindex vcierlhs text
note vcm text
adddefaultcharset,defaultcharsetcustomized vc text
extraheaders c text
authname,required c text
externalredirect,statuscode c text
order c number
# lists of addresses
allow,deny a text
# index
indexfiles i file_names
autoindexuri i uri
# error pages
url x location
# expires
expiresdefault,expiresbytype e text
# hotlinks
enablehotlinkctrl,allowdirectaccess,onlyself h number
suffixes,allowedhosts h text
redirecturi h location
# passwords
maxcachesize,cachetimeout u number
# rewriting
inherit r number
base r uri
loglevel rl text
rules r rules
# logs
logformat,logheaders l text
rollingsize,keepdays,compressarchive l text
# PHP
php_value,php_flag p php
# other servers
address w target
# reCAPTCHA
enabled,regconnlimit,sslconnlimit,maxtries,allowedrobothits g number
sitekey,secretkey,botwhitelist g text
""")

RUNS = "the directive starts programs"
READS = "the directive includes configuration that Paddock did not check"
GLOBAL = "the directive changes all sites of the web server"
CODE = "the directive can make OpenLiteSpeed run code; use the site's PHP pool"
TLS = "Paddock sets the certificates; choose the certificate in the server block"

REFUSED = reasons(
    {
        READS: "include* configfile templatefile accessfilename rewritefile",
        RUNS: "extprocessor* path pipedlogger php_admin_flag binpath env startupfile awstats* autostart autorestart "
        "instances backlog runonstartup apptype railsenv railsdefaults wsgidefaults nodedefaults appserverenv "
        "bubblewrap* namespace* inittimeout maxconns maxidletime extmaxidletime persistconn pckeepalivetimeout "
        "respbuffer retrytimeout workingdir handler_restart priority mem{hard,soft}limit proc{hard,soft}limit "
        "cpu{hard,soft}limit hardlimit softlimit maxcgiinstances uri_map updateinterval updatemode updateoffset",
        GLOBAL: "extuser extgroup setuidmode chroot* enablechroot user group listener* virtualhost* vhtemplate* "
        "vhroot cgirlimit accessdenydir mingid minuid forcegid umask httpserverconfig httpdworkers tuning security "
        "fileaccesscontrol adminconfig allowsetuid allowextappsetuid phpsuexec* cpuaffinity cgroups enablecoredump "
        "enablelve eventdispatcher gracefulrestarttimeout graceperiod general member suspendedvhosts vhost vhostmap* "
        "vhname vhdomain vhaliases sitealiases sitedomain domain shmdefaultdir statdir swappingdir mime "
        "aioblocksize banperiod blockbadreq checksymbollink followsymbollink allowsymbollink compressibletypes "
        "conntimeout keepalivetimeout smartkeepalive max{connections,sslconnections,keepalivereq,reqbodysize} "
        "max{reqheadersize,requrllen,dynrespheadersize,dynrespsize,cachedfilesize,mmapfilesize} totalinmemcachesize "
        "totalmmapcachesize inmembufsize useaio usesendfile fileetag sndbufsize rcvbufsize enabledyngzipcompress "
        "enable{br,gzip}compress gzip{autoupdatestatic,cachedir,compresslevel,maxfilesize,minfilesize} "
        "gzipstaticcompresslevel brstaticcompresslevel enableaiolog disableinitlogrotation disablewebadmin jsonreports "
        "perclientconnlimit {dyn,static}reqpersec {in,out}bandwidth softlimit forcestrictownership "
        "requiredpermissionmask restricted* reuseport proxyprotocol useipinproxyheader "
        "autofix503 geoipdb* ip2loc* iptogeo maxminddb* zconf* secure securedconn uploadpassbypath "
        "uploadtmp* servername log logging logreferer loguseragent byteslog debuglevel enablestderrlog htaccess "
        "defaulttype compresslevel restrained listeners workers cgidsock acme api autowhitelistlocalips dir filename "
        "general internal authorizer http_auth realmlist contextlist websocketlist sessiontimeout "
        "enablecontextac ls_enabled",
        "Paddock sets the document root; change the document root in the server block": "docroot",
        "the directive loads code into the web server": "module* param http_begin http_end l4_* recv* rcvd_* send_* "
        "main_* worker_* "
        "urlfilter* uri_filter",
        CODE: "scripthandler* add suffix forcetype handler enablescript php_admin_value",
        "files in the site's folders could change the web server's configuration": "autoloadhtaccess allowoverride",
        TLS: "vhssl keyfile* certfile* cacertfile cacertpath certchain crlfile crlpath ciphers clientverify "
        "verifydepth enabledhe enableecdhe enablestapling ocsp* sslprotocol sslsession* sslstrong* sslstrictsni "
        "ssldefault* "
        "sslenablemulticerts sslpkthreadcores sslcryptodevice renegprotection dhparam enableh2c enablespdy "
        "spdyadheader enablequic quic*",
        "the directive can run a command or read any file; use the site's rewrites": "map",
        "Paddock sets this directive from settings of the server block; change these settings": "binding name header "
        "errcode customerrorpages",
    }
)
_BLOCKS = {
    "context": "c",
    "rewrite": "r",
    "accesscontrol": "a",
    "index": "i",
    "accesslog": "l",
    "errorlog": "l",
    "errorpage": "x",
    "expires": "e",
    "hotlinkctrl": "h",
    "phpinioverride": "p",
    "realm": "m",
    "userdb": "u",
    "groupdb": "u",
    "websocket": "w",
    "lsrecaptcha": "g",
}
_PHP = frozenset(
    {
        *("memory_limit", "upload_max_filesize", "post_max_size", "max_execution_time", "max_input_time"),
        *("display_errors", "max_input_vars", "error_reporting", "date.timezone", "log_errors", "default_charset"),
        "short_open_tag",
    }
)
_PHP_BEGIN = ("session.gc_", "session.cookie_", "session.use_", "mbstring.", "opcache.", "output_buffering", "zlib.")


def _context(where: Where) -> str:
    if where.parents:
        return _BLOCKS.get(where.parents[-1], "-")
    return {"server": "v", "location": "c"}.get(where.place, "")


def _opened(value: str, where: Where) -> str:
    """Check that the path of a context is a path of the site, or `exp:` and a regular expression."""
    return regex(value[4:], where) if value.lower().startswith("exp:") else confined.uri_problem(value)


def _type(value: str, _where: Where) -> str:
    if value.lower() in ("null", "static", "redirect"):
        return ""
    return "the context passes requests to a program; use the site's PHP pools and upstreams"


def _folder(value: str, where: Where) -> str:
    """Check the path of a folder or password file. URLs are allowed too, because `location` of a redirect context is a
    URL, but not for password files of users.
    """
    if value.lower().startswith(("http://", "https://")) and "userdb" not in where.parents:
        return ""
    if value.lower().startswith("$doc_root/"):
        return confined.uri_problem(value[len("$doc_root") :])
    kind = "password_path" if where.parents[-1:] in (("userdb",), ("groupdb",)) else "path"
    return KINDS[kind](value, where)


def _file_names(value: str, where: Where) -> str:
    names = re.split(r"[,\s]+", value.strip())
    return next(filter(None, (KINDS["file_name"](name, where) for name in names)), "")


def _rules(value: str, where: Where) -> str:
    """Check a block of rewrite rules: each line must be an allowed RewriteRule or RewriteCond, or RewriteEngine,
    RewriteBase or RewriteOptions.
    """
    where = replace(where, place="server", parents=())  # OpenLiteSpeed is not known to normalize a second time
    try:
        found = [words(line, number) for number, _end, line in lines(value)]
    except Unreadable as error:
        return f"rule {error.line}: {error.message}"
    for name, *args in found:
        judge = {"rewriterule": rewrite_rule, "rewritecond": rewrite_cond}.get(name.lower())
        if judge is None and name.lower() not in ("rewriteengine", "rewritebase", "rewriteoptions"):
            return f"sites cannot use {name} in rewrite rules; use only RewriteRule and RewriteCond"
        if judge is not None and (message := judge(tuple(args), where)):
            return f"{name} {message}"
    return ""


def _php(value: str, _where: Where) -> str:
    name = value.split(maxsplit=1)[0].lower() if value.strip() else ""
    if name in _PHP or name.startswith(_PHP_BEGIN):
        return ""
    return f"the PHP setting {name} can make PHP run other code; use the site's PHP pool"


def _log(value: str, where: Where) -> str:
    return (
        "the log would go to a command; enter the path of a log file" if "|" in value else KINDS["path"](value, where)
    )


_OWN: dict[str, Kind] = {
    "context": _opened,
    "context_type": _type,
    "folder": _folder,
    "file_names": _file_names,
    "rules": _rules,
    "php": _php,
    "log": _log,
}
POLICY = Policy(
    read=read,
    allowed=ALLOWED,
    refused=REFUSED,
    kinds={**KINDS, **_OWN},
    judges={},
    context=_context,
)
