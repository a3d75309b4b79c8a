"""Allow-list of raw Apache directives.

Source: https://httpd.apache.org/docs/2.4/mod/directives.html.
"""

from __future__ import annotations

from panel.rendering.apache.judges import JUDGES, KINDS_OF_APACHE, names
from panel.rendering.policy import Policy, Where, reasons, table
from panel.rendering.readers.apache import read

# Contexts: v virtual host, d <Directory>, <Location>, <Files> and <If>, r <RequireAll> and similar.
ALLOWED = table("""
# sections
directory{} v @folder
location{},files{} vd @pattern
locationmatch{},filesmatch{} vd regex
if{},elseif{} vd @condition
else{} vd
limit{},limitexcept{} vd word+
requireall{},requireany{},requirenone{} vdr
ifmodule{},ifdirective{},ifsection{},ifdefine{} vdr text
ifversion{} vdr text+
iffile{} vd folder_around
# files
documentroot v path
alias vd @alias
directoryindex vd file_name+
directoryindexredirect vd word
directoryslash,directorycheckhandler vd word
fallbackresource vd uri
options vd @options
allowoverride d override
allowoverridelist d override
fileetag vd word+
enablemmap,enablesendfile,contentdigest,checkspelling,checkcaseonly,checkbasenamematch vd flag
acceptpathinfo,allowencodedslashes,usecanonicalname,usecanonicalphysicalport,qualifyredirecturl vd word
mergeslashes,mergetrailers v flag
serversignature vd word
serveradmin v text
serverpath v uri
# rewriting
rewriteengine vd flag
rewritebase d uri
rewriteoptions vd rewrite_option+
rewritecond vd @rewrite_cond
rewriterule vd @rewrite_rule
redirect,redirectmatch,redirecttemp,redirectpermanent vd @redirect
redirectrelative,aliaspreservepath vd flag
# headers and responses
header,requestheader vd @header
errordocument vd @error_document
expiresactive vd flag
expiresdefault vd text
expiresbytype vd mime text
adddefaultcharset vd word
forcetype,defaulttype vd type
addtype vd type text+
addcharset,addencoding,addlanguage vd word text+
defaultlanguage,multiviewsmatch vd word+
removecharset,removeencoding,removehandler,removeinputfilter,removelanguage,removeoutputfilter,removetype vd text+
modmimeusepathinfo,cachenegotiateddocs vd flag
languagepriority,forcelanguagepriority vd word+
sethandler vd handler
setoutputfilter,setinputfilter vd filters
addoutputfilter,addinputfilter vd filters text+
addoutputfilterbytype vd filters mime+
substitute vd @substitute
substitutemaxlinelength vd word
substituteinheritbefore vd flag
deflate{compressionlevel,buffersize,memlevel,windowsize,inflatelimitrequestbody,inflateratiolimit} vd number
deflateinflateratioburst vd number
deflate{filternote,alteretag},brotli{filternote,alteretag} vd word+
brotli{compressionquality,compressionwindow,compressionmaxinputblock} vd number
buffersize,keptbodysize vd number
charsetsourceenc,charsetdefault vd word
charsetoptions vd word+
xml2encdefault vd word
xml2startparse vd word+
# listings
addicon,addiconbytype,addiconbyencoding,addalt,addaltbytype,addaltbyencoding,adddescription vd text+
indexoptions,indexorderdefault vd text+
indexignore vd text+
indexignorereset,fancyindexing vd flag
headername,readmename vd file_name
defaulticon,indexstylesheet vd uri
indexheadinsert vd text
# variables
setenv vd environment_name text?
unsetenv vd name+
setenvif,setenvifnocase vd @setenvif
setenvifexpr vd @setenvif_expr
browsermatch,browsermatchnocase v @browser_match
# access
require vdr @require
order,satisfy vd word
allow,deny vd @from
authmerging,authtype vd word
authname vd expr_string
authbasicprovider,authdigestprovider vd auth_provider+
authbasicauthoritative,authzsendforbiddenonfailure,authdigestnccheck vd flag
authdigestqop,authdigestalgorithm vd word+
authdigestnoncelifetime vd number
authdigestdomain vd location+
authuserfile,authgroupfile vd password_path
anonymous vd text+
anonymous_{mustgiveemail,nouserid,verifyemail,logemail} vd flag
authncachecontext vd word
authncacheprovidefor vd auth_provider+
authncachetimeout vd number
allowmethods vd word+
traceenable v word
# limits
limitrequest{body,fields,fieldsize,line} vd number
limitxmlrequestbody,limitinternalrecursion,maxranges,maxrangeoverlaps,maxrangereversals vd word+
readbuffersize,flushmaxthreshold,flushmaxpipelined vd number
timeout,maxkeepaliverequests v number
keepalivetimeout v time
keepalive v flag
requestreadtimeout v word+
httpprotocoloptions v word+
stricthostcheck,protocolshonororder v flag
protocols v word+
# logs
customlog,transferlog,forensiclog v @custom_log
errorlog v log
logformat v text name?
errorlogformat v text+
loglevel vd text+
logiotrackttfb vd flag
# TLS
sslprotocol,ssloptions,sslverifyclient vd word+
sslrequiressl vd
sslciphersuite vd ciphers+
sslhonorcipherorder,sslcompression,sslsessiontickets,sslusestapling,sslstrictsnivhostcheck v flag
sslverifydepth,sslrenegbuffersize vd number
sslusername vd word
sslrequire vd @condition
sslcacertificatefile,sslcacertificatepath,sslcadnrequestfile,sslcadnrequestpath vd ca_path
sslcarevocation{file,path} v path
sslcarevocationcheck v word+
sslsessioncachetimeout v number
sslstapling{responsetimeskew,respondertimeout,responsemaxage,standardcachetimeout,errorcachetimeout} v number
sslstapling{returnrespondererrors,faketrylater} v flag
sslopensslconfcmd v @conf_command
sslproxyengine,sslproxycheckpeer{expire,cn,name} vd flag
sslproxyprotocol vd word+
sslproxyciphersuite vd ciphers+
sslproxyverify vd word
sslproxyverifydepth vd number
sslproxycacertificate{file,path} vd ca_path
sslproxycarevocation{file,path} vd path
sslproxycarevocationcheck vd word+
sslproxymachinecertificate{file,path,chainfile} vd path
h2{maxsessionstreams,windowsize,streammaxmemsize,tlswarmupsize,tlscooldownsecs,maxdataframelen,pushdiarysize} vd number
h2{maxheaderblocklen,maxstreamerrors,padding,streamtimeout} vd number
h2{push,upgrade,direct,earlyhints,outputbuffering,moderntlsonly,copyfiles,serializeheaders,websockets} vd flag
h2pushpriority vd word+
h2pushresource vd word+
h2earlyhint vd header text
# other servers
proxypreservehost,proxyerroroverride,proxyaddheaders,proxy100continue,proxypassinherit vd word+
proxypass vd @proxy_pass
proxypassreverse vd reverse+
proxypassreversecookie{path,domain} vd text text
proxytimeout,proxyiobuffersize,proxyreceivebuffersize,proxymaxforwards vd number
proxyvia,proxybadheader vd word
proxyfcgibackendtype vd word
proxywebsocketfallbacktoproxyhttp vd flag
proxyhtml{enable,extended,stripcomments,interp,meta} vd flag
proxyhtml{events,links,urlmap,fixups,doctype} vd text+
proxyhtml{bufsize,charsetout} vd word
remoteipheader,remoteipproxiesheader v header
remoteip{trustedproxy,internalproxy} v address+
# mod_php
php_value vd php_name text
php_flag vd php_name word
# cookies and sessions in the visitor's browser
session vd flag
sessionmaxage,sessionexpiryupdateinterval vd number
sessionheader vd header
sessionenv vd flag
session{include,exclude} vd uri
sessioncookiename,sessioncookiename2 vd text+
sessioncookieremove vd flag
cookie{expires,domain,style,name,samesite} vd text
cookie{tracking,secure,httponly} vd flag
""")

LOADS = "the directive loads code into the web server"
RUNS = "the directive runs a command"
READS = "the directive includes configuration that Paddock did not check"
EXPANDS = "the directive changes the meaning of all later lines"
GLOBAL = "the directive changes all sites of the web server"
PROGRAM = "the directive can make Apache run files as programs; use the site's PHP pool"
PROXY = "Paddock sets the servers to which Apache sends requests; change the site's locations and upstreams"
SHOWN = "the directive shows or changes data of other sites"
TLS = "Paddock sets this directive with the certificate; choose the certificate in the server block"
NAMES = "Paddock sets the names; change them in the server block"
CACHE = "response caching is a setting of locations; change it in the location"
LOGIN = (
    "the directive would contain the password of a directory service or database; use the location's realm and users"
)

REFUSED = reasons(
    {
        READS: "include includeoptional",
        EXPANDS: "define undefine use macro undefmacro macroignore* error",
        LOADS: "loadmodule loadfile lua* perl* python* wsgi* passenger* php_admin_* phpinidir modsec* sec*",
        RUNS: "extfilter* script* action cgi* fcgid* suexec* sslpassphrasedialog mdmessagecmd mdnotifycmd "
        "mdchallengedns01* scriptsock",
        PROGRAM: "addhandler filterdeclare filterprovider filterchain filterprotocol filtertrace scriptalias* "
        "virtualscriptalias* authnzfcgi* imap* metafiles metadir metasuffix",
        "visitors would choose the folder; add one server block per folder": "virtualdocumentroot* userdir "
        "aliasmatch directorymatch",
        GLOBAL: "assignuserid user group pidfile mutex serverroot coredumpdirectory chrootdir servertokens "
        "serverlimit startservers min* max{spare,clients,request,mem,connections}* threads* threadlimit "
        "listenbacklog listencores* listentcp* sendbuffersize receivebuffersize async* graceful* acceptfilter "
        "accessfilename extendedstatus seerequesttail scoreboardfile defaultruntimedir hostnamelookups "
        "namevirtualhost rlimit* regexdefaultoptions enableexceptionhook protocol protocolecho watchdog* heartbeat* "
        "loadaverage threadstacksize bufferedlogs globallog maxrequestworkers maxspareservers "
        "sslrandomseed sslsessioncache sslcryptodevice sslfips sslstaplingcache sslvhostsnipolicy h2minworkers "
        "h2maxworkers h2maxworkeridleseconds h2sessionextrafiles identitycheck* modemstandard dumpio* "
        "memcacheconnttl redis* authncachesocache authncacheenable authdigestshmemsize cachefile mmapfile typesconfig "
        "mimemagicfile xml2encalias casefilter* reflectorheader maxconnectionsperchild logmessage registerhttpmethod "
        "ldapsharedcache* ldapcache* ldapopcache* ldaptrusted* ldapverify* ldapconnection* ldapreferral* "
        "ldaplibrarydebug ldaptimeout ldapretr* mod_gnutls* gnutls* quic*",
        "Paddock sets the ports; change them in the server block": "listen port",
        NAMES: "servername serveralias",
        "the directive opens another virtual host; add a server block to the site instead": "virtualhost",
        "the directive lets visitors write files": "dav dav*",
        "the directive shows the web server's environment": "passenv",
        "the directive can run a command or read any file; use the site's rewrites": "rewritemap",
        "Paddock orders certificates itself; turn on the site's automatic HTTPS instead": "md*",
        "the directive opens databases": "dbd* authdbd* authzdbd* sessiondbd*",
        LOGIN: "authldap* authform* authdbm* authzdbm* authbasicfake authbasicusedigestalgorithm authnprovideralias "
        "authzprovideralias sessioncryptopassphrase* sessioncrypto*",
        PROXY: "proxypassmatch proxyremote* proxyset proxy proxymatch proxysourceaddress "
        "proxypassinterpolateenv proxyexpress* proxyhc* proxyblock noproxy proxydomain proxyftp* proxyscgi* "
        "proxyfcgisetenvif balancergrowth balancerpersist balancerinherit allowconnect h2proxyrequests",
        "the directive makes Apache an open proxy": "proxyrequests",
        "Paddock sets the servers to which Apache sends requests; change the site's upstreams": "balancermember",
        SHOWN: "proxystatus addmoduleinfo",
        CACHE: "cache*",
        "files in the site's folders could run commands": "xbithack ssi*",
        "scripts of sed can write files": "outputsed inputsed",
        TLS: "sslengine sslcertificate* sslsessionticketkeyfile sslsrp* sslpolicy* sslocsp* sslstaplingforceurl "
        "sslinsecurerenegotiation ssllog sslloglevel",
        "the directive would also change other listeners": "remoteipproxyprotocol* "
        "remoteip{trustedproxylist,internalproxylist}",
    }
)
TRANSPARENT = frozenset(
    {"ifmodule", "ifdirective", "ifsection", "ifdefine", "ifversion", "iffile", "limit", "limitexcept"}
)


def _context(where: Where) -> str:
    inner = [name for name in where.parents if name not in TRANSPARENT]
    if inner:
        return "r" if inner[-1].startswith("require") else "d"
    return {"server": "v", "location": "d"}.get(where.place, "")


def _expands(value: str) -> str:
    return "Apache would replace ${ by a variable that Paddock cannot check; remove it" if "${" in value else ""


POLICY = Policy(
    read=read,
    allowed=ALLOWED,
    refused=REFUSED,
    kinds=KINDS_OF_APACHE,
    judges=JUDGES,
    context=_context,
    names=names,
    every=_expands,
)
