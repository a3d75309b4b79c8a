"""What configurations are put together from. Every line is valid wherever the generator puts it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

PAGE = "<html><head><title>x</title></head><body>" + "some text to look for. " * 60 + "</body></html>"
FILES = {
    "index.html": "root index", "b.txt": "b", "x.gif": "GIF root", "a/index.html": "a index", "a/x.gif": "GIF a",
    "a/b/index.html": "a/b index", "a/b/c.txt": "c", "img/x.gif": "GIF img", "img/none/here.txt": "here",
    "a b/c d.txt": "blanks", "é/ü.html": "umlauts", "plus+sign.txt": "plus", "per%cent.txt": "percent",
    "q?mark.txt": "question mark", ".hidden": "hidden", "semi;colon.txt": "semicolon", "x.gif.txt": "not a GIF",
    "empty/none.txt": "in a folder without an index", "empty.txt": "", "big.txt": "0123456789abcdef" * 2500,
    "404.html": "own 404 page", "50x.html": "own 50x page", "other/a/x.gif": "GIF other", "other/b.txt": "other b",
    "other/index.html": "other index", "AB/index.html": "upper case", "style.css": "p { margin: 0 }" * 20,
    "page.html": PAGE, "data.json": '{"a": 1}', "noext": "no extension", "a/b/noext": "deep",
    "many.dots.tar.txt": "dots", "before.txt": "before ", "after.txt": " after", "included.html": "included",
    "ssi.html": '<!--#set var="t" value="set $arg_q" --><!--#echo var="t" --> <!--#include virtual="/b.txt" -->'
    '<!--#if expr="$arg_q = x" -->x<!--#else -->not x<!--#endif --> <!--#echo var="none" default="-" -->',
    "blocks.html": '<!--# config errmsg="[bad]" timefmt="%Y" --><!--#echo var="DATE_GMT" encoding="none" -->|'
    '<!--#block name="stub" -->stubbed<!--#endblock --><!--#include virtual="/none" stub="stub" -->|'
    '<!--#include virtual="/b.txt?x=1" set="got" --><!--#echo var="got" -->|<!--#if expr="$uri = /^.(?P<head>.)/" -->'
    'head=<!--#echo var="head" --><!--#elif expr="$arg_q" -->q<!--#else -->neither<!--#endif -->|'
    '<!--#include file="included.html" wait="yes" -->|<!--#nonsense -->|<!--#echo var="arg_q" encoding="url" -->|'
    '<!--#echo var="uri" encoding="entity" --><!--#set var="v2" value="a${arg_q}b" --><!--#echo var="v2" -->|'
    '<!--#include virtual="/app/x?ssi" --><!-- plain --><!--# echo var=q -->'
    '<!--#if expr="$arg_q != x" -->not<!--#endif -->',
    "russian.txt": "абв and more: абв", "russian.html": "<b>абвгд</b>",
}  # fmt: skip

PREFIXES = ["/", "/", "/a", "/a/", "/a/b", "/a/b/", "/img", "/img/", "/A", "/AB/", "/b.txt", "/x.gif", "/a b", "/a b/",
            "/é", "/index.html", "/empty/", "/none", "/page.html", "/app", "/app/", "/a/x.gif", "/ssi.html",
            "/blocks.html", "/russian",
            "/plus+", "/per%c", "/.", "/a//b"]  # fmt: skip
REGEXES = [r"\.gif$", r"^/a", r"b", r"/a/(b|c)$", r"^/(a|b)/x", r"[ab]b$", r"a{1,2}/", r"^/A", r"(?<w>[a-z]+)\.gif$",
           r"^/$", r"/$", r"^/img/|b$", r" ", r"/(?!a)[^/]+$", r"\.(gif|jpg|txt)$", r"^/(?:a|img)/(.+)$", r"é", r"\d",
           r"index", r"^/.{2}$", r"[^/]{3,}$", r"\.html?$", r"^/a b/", r"\+", r";", r"[%?]", r"^/(.*)$", r"(.*)x",
           r"^/app/(?<x>\d*)(.*)", r"\.(?:css|json)$", r"^(?i)/AB", r"//", r"^/([^/]*)/([^/]*)$"]  # fmt: skip
MAPS = [
    "default d; /b.txt exact; ~^/a/(.*)$ re-$1; ~*\\.GIF$ gif;",
    'default "$args-"; ~^/(?<w>a|b)/ "w=$w"; /A upper; "~ " blank;',
    'hostnames; default x; /x.gif "q\\"q"; ~/$ slash; ~(.)(.)$ "$2$1";',
    'volatile; default $uri; ~^(?<x>/a)(?<w>/.*)$ "$w$x"; "" none; \\default d; ~*^/(é|img) $1;',
]
# By the client's address, which a field may name.
NETS = [
    "proxy 127.0.0.0/8; default out; 192.0.2.0/24 test; 192.0.2.1 one; 10.0.0.0/8 ten; 2001:db8::/32 six;",
    "proxy 127.0.0.0/8; proxy 10.0.0.0/8; proxy_recursive; default out; 192.0.2.0/24 test;"
    " 10.0.0.0/8 ten; 127.0.0.0/8 own;",
    "ranges; default out; 192.0.2.0-192.0.2.255 test; 127.0.0.0-127.255.255.255 own; delete 127.0.0.0-127.255.255.255;",
    "default out; 127.0.0.0/8 own; 127.0.0.1/32 self; 192.0.2.0/24 $test;",
]
GEOS = [
    "default out; 10.0.0.0/8 ten; 10.1.0.0/16 inner; 2001:db8::/32 six;",
    "ranges; default out; 10.0.0.0-10.0.0.9 few;",
]
RETURNS = [
    'return 200 "uri=$uri args=$args v=$v w=$w 1=$1\\n";', "return 204;", "return 301 /b.txt;", "return 302 /a?$args;",
    "return 301 https://other.test$request_uri;", "return 403;", "return 404;", "return 410 gone;",
    "return 500;", "return 503 later;", 'return 200 "";', "return 307 b.txt;", "return 308 http://$host/$uri;",
    "return http://elsewhere.test/x;", "return 200 $request_uri;", "return 201 made;", "return 304;",
    "return 400;", "return 405;", "return 418 tea;", "return 599;", 'return 303 "/a b/é";', "return 206 part;",
    "return 401 who;", "return 413;", "return 416;", "return 421;", "return 429;", "return 301 $arg_q;",
    "return 302 $scheme://$http_host/x?$args;", "return 301 ?x=1;", "return 308 $uri;", "return 494;", "return 495;",
    "return 496;", "return 497;", "return 499;", "return 302 //other.test/;", 'return 302 "";', "return 303 a#f;",
    'return 200 "$remote_addr $remote_user $realip_remote_addr $net\\n";', "return 408;", "return 409 $status;",
    'return 200 "$request_body|$content_type|$request_length\\n";', "return 502;", "return 504;", "return 507;",
]  # fmt: skip
REWRITES = [
    "rewrite ^/a/(.*)$ /img/$1 last;", "rewrite ^/a/(.*)$ /$1 break;", "rewrite ^/img(.*) /a$1;",
    "rewrite ^/(.*)\\.gif$ /$1.txt last;", "rewrite ^ /index.html break;", "rewrite b /x.gif redirect;",
    "rewrite ^/b(.*)$ /c$1?z=1 permanent;", "rewrite ^/(.*)$ /a/$1? redirect;", "rewrite ^/A(.*)$ http://up.test/$1;",
    "rewrite (.*)x$ $1y?more=$arg_q last;", "rewrite ^/app/(?<x>.*)$ /b.txt?$x break;", "set $v set-$uri;",
    'set $v "$v+$args";', "rewrite ^/none$ /a last;", "rewrite ^/none(.*) /none/x last;", "break;",
    'rewrite "^/(.{3})$" /$1/ permanent;', 'rewrite "(?i)^/INDEX" /page.html last;', "rewrite ^(.*)/$ $1 redirect;",
    "rewrite ^/a b/(.*)$ /$1 break;".replace("a b", r"a\ b"), "rewrite é /e redirect;",
    "rewrite ^/(.*)%(.*) /$2$1 break;", 'rewrite ^/(\\w+)$ "/$1 $v" redirect;',
    "rewrite ^/empty /empty/../b.txt break;", "set $v $1;", "set $w own;", "rewrite ^/page /ssi.html?q=x break;",
    "rewrite ^/(.*)$ /$1?q=rewritten break;", "rewrite ^/x https://$host/secure/$uri redirect;",
    "rewrite ^ $scheme://new.test$request_uri? permanent;", 'rewrite "^/(?<w>[^/]+)/(?<x>.*)$" /$x/$w?$1=$2 last;',
    "rewrite ^/a/(.*)/(.*)$ /$2?one=$1;", "rewrite ^ $arg_q last;", "rewrite ^/(.*)$ $1 redirect;",
    "rewrite ^/b ?only=args break;", "rewrite (?<x>.)$ /$x$x last;", "rewrite ^/img/(.*)$ /img/$1?$args&r=1? redirect;",
    'rewrite ^/(.*)$ "/$1" break;', "rewrite ^/x(.*)$ $scheme://$host$1 last;", "rewrite ^ /app$uri last;",
    "rewrite_log on;", 'set $v "${v}x$1$2";', "set $args $arg_q&set=1;", "set $v $args$is_args;", "set $w $m$net;",
]  # fmt: skip
IFS = [
    "if ($arg_q = x) { return 403; }", "if ($arg_q = x) { return 444; }", "if ($request_method = POST) { return 405; }",
    "if ($arg_q) { set $v q; }", 'if ($http_x_own ~* "^C(.)") { set $v own-$1; }',
    "if (-f $request_filename) { set $v file; }", "if (!-e $request_filename) { rewrite ^ /index.html last; }",
    "if (-d $request_filename) { add_header X-If dir; }", "if ($args !~ a) { rewrite ^/a /b.txt break; }",
    'if ($uri ~ "^/(a|b)") { set $w $1; }', "if ($cookie_c) { add_header X-If cookie; }",
    "if ($host != s1.test) { set $v other; }", "if ($request_uri ~ \"//\") { return 301 /slashes; }",
    "if ($arg_q ~ (.*)) { return 200 \"$1\"; }", "if ($m = exact) { set $v mapped; }",
    "if ($http_referer !~* test) { set $v foreign; }", "if ($split = a) { return 402; }",
    "if (-x $request_filename) { set $v exec; }", "if ($v) { break; }", "if ($cookie_c) { proxy_pass http://app; }",
    "if ($arg_q) { proxy_pass http://app; set $v passed; break; }", "if ($http_x_own) { error_page 404 /b.txt; }",
    "if ($request_method !~ ^(GET|HEAD)$) { return 405; }", "if ($arg_q = x) { expires 1h; charset utf-8; gzip on; }",
    'if ($uri ~ "(.)(.)$") { set $v "$2$1"; rewrite "^/(.{2}).*$" /$1 break; }', "if ($limit_rate) { return 507; }",
    'if ($args ~ "q=([^&]*)") { set $w $1; rewrite ^ /$w? last; }', "if (!-f $document_root$uri) { return 404 none; }",
    'if ($uri = /none) { return 302 "/was?$args"; }', "if ($remote_addr ~ ^192) { set $v far; return 403; }",
    'if ($http_cookie ~* "c=([^;]+)(?:;|$)") { set $v $1; add_header X-Cookie $1; }',
    "if ($net != own) { return 403; }",
    "if ($request_uri ~* ^/(?<w>[a-c])) { set $v $w$1; }", "if ($v = '') { set $v empty; }", "if ($x) { return 204; }",
    "if ($arg_q) { } ", "if (!-d $document_root/$arg_q) { set $v nodir; }", "if ($invalid_referer) { return 403; }",
]  # fmt: skip
# Of what may stand in an `if`, this is not for one of a server block.
NOT_IN_SERVERS = ("add_header", "proxy_pass", "error_page", "expires")
PASSES = [
    "proxy_pass http://app;", "proxy_pass http://app;", "proxy_pass http://app/;", "proxy_pass http://app/v2/;",
    "proxy_pass http://app/v2;", "proxy_pass http://app$request_uri;", "proxy_pass http://app/x?$args;",
    "proxy_pass http://app/fixed$uri;", "proxy_pass http://app/status/404;", "proxy_pass http://app/fields;",
    "proxy_pass http://app/move;", "proxy_pass http://app/accel;", "proxy_pass http://app/status/503;",
    "proxy_pass http://app/status/304;", "proxy_pass http://app/status/401;", "proxy_pass http://app/gzip;",
    "proxy_pass http://app/files/;", "proxy_pass http://app/files/page.html;", "proxy_pass http://app/files$uri;",
    "proxy_pass http://app/cached;", "proxy_pass http://app/chunked;", "proxy_pass http://app/charset;",
    "proxy_pass http://app/files/big.txt; slice 1k; proxy_set_header Range $slice_range;",
    "proxy_pass http://app/files$uri; slice 16; proxy_set_header Range $slice_range; proxy_cache c;"
    " proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h;", "proxy_pass http://app/files/blocks.html;",
    "proxy_pass http://app/cached?$args; proxy_cache c; proxy_cache_key $args; proxy_cache_valid any 1h;",
    "proxy_pass http://app/empty;",
]  # fmt: skip
PROXY = [
    "proxy_set_header Host $host;", 'proxy_set_header X-Own "$v"; proxy_set_header Host $http_host;',
    "proxy_http_version 1.1;", "proxy_http_version 1.0;", "proxy_method POST;", "proxy_pass_request_headers off;",
    "proxy_pass_request_body off; proxy_set_header Content-Length \"\";", 'proxy_set_body "b-$args";',
    "proxy_hide_header X-One;", "proxy_pass_header Server;", "proxy_redirect off;",
    "proxy_redirect http://app/ /back/;", 'proxy_redirect "~^http://[^/]+/(.*)$" /re/$1;',
    "proxy_cookie_domain inner.test outer.test;", "proxy_cookie_path /in/ /out/;",
    "proxy_cookie_flags ~ secure samesite=lax;", "proxy_intercept_errors on;", "proxy_ignore_headers X-Accel-Redirect;",
    "proxy_ignore_headers X-Accel-Charset Expires;", "proxy_buffering off;", "proxy_request_buffering off;",
    "proxy_set_header Accept-Encoding gzip;", 'proxy_set_header Connection "";', "proxy_force_ranges on;",
    "gunzip on;", "proxy_next_upstream http_503 http_404 non_idempotent;", "proxy_cache c; proxy_cache_valid any 1h;",
    "proxy_cache c; proxy_cache_valid 200 302 404 1h; proxy_cache_methods POST; proxy_cache_key $request_method$uri;",
    "proxy_cache c; proxy_cache_key $host$uri; proxy_cache_min_uses 2; proxy_cache_valid 1h;",
    "proxy_cache c; proxy_cache_bypass $arg_q; proxy_no_cache $cookie_c; proxy_cache_lock on;"
    " proxy_cache_valid any 1h;",
    "proxy_cache c; proxy_ignore_headers Cache-Control Expires Set-Cookie Vary; proxy_cache_valid 1h;",
    "proxy_cache c; proxy_cache_convert_head off; proxy_cache_key $request_method$uri; proxy_cache_valid any 1h;",
    "proxy_cache c; proxy_cache_max_range_offset 3; proxy_cache_valid any 1h; proxy_cache_revalidate on;",
    r"proxy_cookie_domain ~^inner\.(.*)$ $1; proxy_cookie_path ~*^/IN/(.*)$ /o/$1;", "proxy_ignore_client_abort on;",
    "proxy_redirect http://app $scheme://$host; proxy_redirect / /r/;", "proxy_method $arg_q;",
    "proxy_hide_header Vary; proxy_hide_header ETag;", "proxy_pass_header Date; proxy_pass_header X-Accel-Redirect;",
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Host $proxy_host;",
    "proxy_set_header X-Empty \"\";", 'proxy_set_header Content-Type "text/own";', "proxy_headers_hash_max_size 1024;",
]  # fmt: skip
TRIES = [
    "$uri =404", "$uri $uri/ =404", "$uri $uri/ /index.html", "$uri /app?$args", "$uri @named", "$uri/ @named",
    "/none =403", "/b.txt =404", "$uri.html $uri.txt @other", "$uri /a/index.html?x=$arg_q", "$uri $uri/ /none /x.gif",
    "$uri/index.html =410", "$uri /", "/a$uri $uri @other", "$uri =204", "/$arg_q $uri =404",
    "$uri $uri/ @none", "$uri/ $uri =404", "/a/ =404", "$uri.gif $uri/index.html /per%cent.txt",
    "/./b.txt =404", "$document_uri$is_args$args $uri =410", "$uri /ssi.html?q=$arg_q&u=$uri", "/none$uri $uri/ =500",
    "//b.txt =404", "$cookie_c /a/$cookie_c =405", "$uri =444",
]  # fmt: skip
ACCESS = [
    "deny all;", "deny 127.0.0.1;", "allow 127.0.0.0/8; deny all;", "allow 10.0.0.0/8; deny all;", "internal;",
    'auth_basic "Staff"; auth_basic_user_file htpasswd;',
    'auth_basic "Q \\"q\\""; auth_basic_user_file htpasswd; satisfy any; deny all;',
    "satisfy any; allow 127.0.0.1; deny all; auth_basic x; auth_basic_user_file htpasswd;", "auth_request /auth-check;",
    "auth_request /auth-check; auth_request_set $v $upstream_status;", "limit_except GET { deny all; }",
    "limit_except GET POST { deny all; }", "limit_except PUT { return 403; }".replace( "return 403;", "deny all;"),
    "valid_referers none blocked *.test ~good; if ($invalid_referer) { return 403; }",
    "limit_except GET HEAD { allow 10.0.0.0/8; deny all; }", "limit_except GET { proxy_pass http://app; }",
    'limit_except GET { auth_basic "x"; auth_basic_user_file htpasswd; }', "limit_except PUT DELETE { allow all; }",
    'auth_basic $arg_q; auth_basic_user_file htpasswd;', "auth_basic off;", "auth_request /none;", "auth_request off;",
    'auth_basic "a"; auth_basic_user_file $arg_q;', "allow 192.0.2.0/24; allow ::1; deny all;", "auth_request /app/x;",
    "satisfy any; auth_request /auth-check; auth_basic x; auth_basic_user_file htpasswd;", "deny unix:; allow all;",
    "satisfy all; allow 127.0.0.1; deny all; auth_request /auth-check; auth_basic x; auth_basic_user_file htpasswd;",
    'secure_link_secret word; if ($secure_link = "") { return 403; } rewrite ^ /$secure_link break;',
    'secure_link $arg_q,$arg_e; secure_link_md5 "s"; if ($secure_link = 0) { return 410; }'
    ' set $v "$secure_link_expires";',
    "valid_referers server_names none ~test; if ($invalid_referer) { return 403; }",
    'secure_link $arg_q; secure_link_md5 "s$uri"; if ($secure_link = "") { return 410; }',
]  # fmt: skip
MODIFIERS: list[list[str]] = [
    ["etag off;"], ["if_modified_since off;", "if_modified_since before;"], ["max_ranges 0;", "max_ranges 1;"],
    ["expires 1h;", "expires -1;", "expires epoch;", "expires max;", "expires off;", "expires modified +1h;",
     "expires $arg_q;", "expires @15h30m;", "expires modified -1d;", "expires 0;"],
    ['add_header X-One "a b" always;', "add_header X-One $v;", "add_header Cache-Control no-store;",
     'add_header Last-Modified "";', 'add_header ETag "\\"own\\"";', "add_header X-Status $status always;",
     "add_header Vary X-Own;", "add_header Server own always;",
     "add_header Content-Type text/own;", "add_header Location /own always;", "add_header X-One $arg_q;"],
    ["charset utf-8;", "charset koi8-r;", "charset off;", "charset koi8-r; source_charset utf-8; charset_types *;",
     "charset koi8-r; source_charset utf-8;",
     "source_charset koi8-r; charset utf-8; charset_types text/plain text/html;",
     "charset $net;"],
    ["default_type text/plain;", "default_type $arg_q;", 'default_type "";'],
    ["types { text/x-own txt gif; }", "types { }", "types { text/html html htm; image/x-g GIF; }"],
    ["gzip on;", "gzip on; gzip_min_length 10; gzip_types *;",
     "gzip on; gzip_proxied any; gzip_vary on; gzip_http_version 1.0;", 'gzip on; gzip_disable "MSIE [1-6]\\.";',
     "gzip on; gzip_proxied no-cache private auth; gzip_types text/x-app;", "gzip on; gzip_proxied no_etag expired;",
     "gzip on; gzip_min_length 0; gzip_types text/plain text/x-app text/css; gzip_proxied any;"],
    ["sub_filter text TEXT; sub_filter_once off;", "sub_filter root $uri; sub_filter_types *;",
     "sub_filter </body> -END;",
     "sub_filter a A; sub_filter_once off; sub_filter_types *; sub_filter_last_modified on;",
     "sub_filter '$arg_q' [$v]; sub_filter root ''; sub_filter_types text/plain text/x-app;",
     "sub_filter ab X; sub_filter abc Y; sub_filter bc Z; sub_filter_once off; sub_filter_types *;"],
    ["add_before_body /before.txt;", "add_after_body /after.txt; addition_types *;"],
    ["ssi on;", "ssi on; ssi_types *; ssi_silent_errors on;", "ssi on; ssi_last_modified on;",
     "ssi on; ssi_types text/x-app text/plain;"], ["chunked_transfer_encoding off;"],
    ["client_max_body_size 4;", "client_max_body_size 0;"],
    ["absolute_redirect off;", "port_in_redirect off;", "server_name_in_redirect on;"], ["server_tokens off;"],
    ["keepalive_timeout 75 20;", "keepalive_timeout 0;"], ["log_not_found off;"], ["add_trailer X-Trailer $v;"],
    ["disable_symlinks on;"], ["msie_padding off;"], ["sendfile on;", "sendfile off;"], ["error_page 405 =200 $uri;"],
    ["keepalive_disable none;", "keepalive_requests 3;"], ["override_charset on;"],
    ["lingering_close always;", "lingering_close off;"], ["auth_delay 0;"],
    ["set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;",
     "set_real_ip_from 0.0.0.0/0; real_ip_header X-Real-IP;",
     "set_real_ip_from 127.0.0.0/8; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;",
     "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;", "set_real_ip_from unix:; set_real_ip_from ::/0;"],
    ["mirror /mirror;", "mirror /mirror; mirror_request_body off;", "mirror /none; mirror /b.txt;", "mirror off;"],
    ["limit_req zone=req;", "limit_req zone=req burst=2 nodelay; limit_req_status 429;",
     "limit_req zone=req; limit_req_dry_run on;"],
    ["limit_conn con 50; limit_conn_status 509;"], ["limit_rate_after 1m; limit_rate 10m;"],
    ["autoindex_exact_size off;", "autoindex_localtime on;"],
    ["access_log off;", "access_log log/seen.log seen if=$arg_q;", "access_log log/$arg_q.log;"],
    ["msie_refresh on;"],
    ["client_body_buffer_size 1k;", "client_body_in_file_only clean;", "client_body_in_single_buffer on;"],
]  # fmt: skip
# Whose of several servers on a port these are taken from, nginx leaves open.
HTTP_ONLY = [
    "merge_slashes off;", "underscores_in_headers on;", "ignore_invalid_headers off;",
    "large_client_header_buffers 2 1k;", "client_header_buffer_size 64;",
]  # fmt: skip
SERVER_ONLY = [
    "try_files $uri $uri/ =404;", "try_files $uri /index.html;", "index b.txt index.html;", "autoindex on;",
]  # fmt: skip
ERROR_PAGES = [
    "error_page 404 /404.html;", "error_page 404 = /b.txt;", "error_page 404 =200 /50x.html;",
    "error_page 403 404 @named;", "error_page 404 = @other;", "error_page 500 502 503 504 /50x.html;",
    "error_page 404 /none.html;", "error_page 403 http://elsewhere.test/denied;",
    "error_page 404 =301 http://elsewhere.test/moved;", "error_page 405 =200 /b.txt;", "error_page 401 /404.html;",
    "error_page 400 413 414 /50x.html;", "error_page 404 /app?e=$status;", "error_page 301 302 =200 /b.txt;",
    "error_page 404 =410 /404.html;", "error_page 418 /404.html;", "error_page 404 /$arg_q;",
    "error_page 494 495 496 497 = /b.txt;", "error_page 404 =200 @named;", "error_page 404 = $arg_q;",
    "error_page 404 /404.html; error_page 403 = @other; error_page 500 =200 /b.txt; error_page 401 = @named;",
    "error_page 500 502 503 504 =503 /app?$status;", "error_page 405 = @named;",
    "error_page 403 404 410 =404 /ssi.html;",
    "error_page 401 402 403 405 410 416 429 500 503 599 /b.txt?$status;", "error_page 400 = @named;",
    "error_page 404 =204 /b.txt;", "error_page 404 =301 /moved;", "error_page 302 303 =404 /404.html;",
    "error_page 413 = @other;",
]  # fmt: skip


def pick(chance: Random, several: Sequence[T]) -> T:
    return several[chance.randrange(len(several))]
