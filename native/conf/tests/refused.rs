//! What nginx refuses is refused, in its words: most of these were found by giving both servers every
//! directive with many arguments.

use gallop_conf::load_text;
use std::path::Path;

/// What is said of directives in a place: an error without its line, or nothing.
fn said(place: &str, directives: &str) -> String {
    let text = match place {
        "main" => format!("{directives}\nevents {{}}\nhttp {{ server {{ listen 81; }} }}"),
        "http" => format!("events {{}}\nhttp {{ {directives} server {{ listen 81; }} }}"),
        "server" => format!("events {{}}\nhttp {{ server {{ listen 81; {directives} }} }}"),
        "upstream" => {
            format!("events {{}}\nhttp {{ upstream u {{ server 127.0.0.1; {directives} }} }}")
        }
        _ => {
            format!("events {{}}\nhttp {{ server {{ listen 81; location / {{ {directives} }} }} }}")
        }
    };
    match load_text(Path::new("/nowhere"), "conf", &text) {
        Ok(_) => String::new(),
        Err(error) => error.message,
    }
}

#[test]
fn rejected_configurations_have_nginx_messages() {
    for (place, directives, want) in [
        ("server", "connection_pool_size 100;", "the pool size must be no less than 112"),
        ("server", "request_pool_size 4097;", "the pool size must be a multiple of 16"),
        ("server", "connection_pool_size 16k;", "the \"large_client_header_buffers\" size must be equal to or greater than \"connection_pool_size\""),
        ("server", "large_client_header_buffers 4 256;", "the \"large_client_header_buffers\" size must be equal to or greater than \"connection_pool_size\""),
        ("http", "http2_recv_buffer_size 16;", "\"http2_recv_buffer_size\" directive value is too small"),
        ("server", "http2_streams_index_size 3;", "\"http2_streams_index_size\" directive must be a power of two"),
        ("server", "http2_chunk_size 0;", "the http2 chunk size cannot be zero"),
        // nginx has the name as it was written.
        ("server", "ssl_certificate a.pem;", "no \"ssl_certificate_key\" is defined for certificate \"/nowhere/a.pem\""),
        ("server", "ssl_password_file none;", "open() \"/nowhere/none\" failed (2: No such file or directory)"),
        ("server", "quic_host_key none;", "open() \"/nowhere/none\" failed (2: No such file or directory)"),
        ("server", "quic_host_key /dev/null;", "\"/dev/null\" zero key size"),
        ("server", "ssl_certificate_cache off on;", "invalid parameter \"on\""),
        ("location", "proxy_ssl_password_file none;", "open() \"/nowhere/none\" failed (2: No such file or directory)"),
        ("location", "proxy_buffers 1 4k;", "there must be at least 2 \"proxy_buffers\""),
        ("location", "proxy_buffer_size 16k;", "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer"),
        ("location", "proxy_buffer_size 16k; proxy_buffers 4 16k;", ""),
        ("http", "proxy_busy_buffers_size 1k;", "\"proxy_busy_buffers_size\" must be equal to or greater than the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\""),
        ("location", "fastcgi_temp_file_write_size 1k;", "\"fastcgi_temp_file_write_size\" must be equal to or greater than the maximum of the value of \"fastcgi_buffer_size\" and one of the \"fastcgi_buffers\""),
        ("location", "fastcgi_max_temp_file_size 1k;", "\"fastcgi_max_temp_file_size\" must be equal to zero to disable temporary files usage or must be equal to or greater than the maximum of the value of \"fastcgi_buffer_size\" and one of the \"fastcgi_buffers\""),
        ("location", "fastcgi_max_temp_file_size 0;", ""),
        ("location", "proxy_bind off transparent;", "invalid address \"off\""),
        ("location", "proxy_store '';", "empty path"),
        ("location", "proxy_cookie_flags a;", "invalid parameter \"a\""),
        ("location", "proxy_cookie_flags a b c d e;", "invalid number of arguments in \"proxy_cookie_flags\" directive"),
        ("location", "proxy_cookie_flags off; proxy_cookie_flags a secure;", "\"proxy_cookie_flags\" directive is duplicate"),
        ("location", "proxy_cookie_path /a /b; proxy_cookie_path off;", "\"proxy_cookie_path\" directive is duplicate"),
        ("location", "proxy_redirect off; proxy_redirect /a /b;", "\"proxy_redirect\" directive is duplicate"),
        ("location", "proxy_no_cache $a; set $a 1; proxy_no_cache $uri;", ""),
        ("location", "proxy_next_upstream error; proxy_next_upstream timeout;", ""),
        ("location", "gzip_proxied expired; gzip_proxied auth;", ""),
        // gallop's own.
        ("http", "confine_files;", "invalid number of arguments in \"confine_files\" directive"),
        ("http", "confine_files off /tmp;", "\"confine_files\" takes either \"off\" or folders; write \"./off\" for a folder of that name"),
        ("server", "confine_files '';", "empty folder name in \"confine_files\" directive"),
        ("location", "confine_files /srv/$host;", "variables are not allowed in \"confine_files\", found in \"/srv/$host\""),
        ("location", "confine_files /tmp; confine_files /var;", "\"confine_files\" directive is duplicate"),
        ("location", "confine_files /tmp /var/;", ""),
        ("location", "confine_files off;", ""),
        ("location", "confine_files /nowhere/at/all;", ""),
        ("location", "open_file_cache off on;", "invalid \"open_file_cache\" parameter \"on\""),
        ("location", "rewrite a '';", "empty replacement"),
        ("location", "types_hash_bucket_size 1k;", "\"types_hash_bucket_size\" directive invalid number"),
        ("location", "rewrite ~^( /;", "pcre2_compile() failed: missing closing parenthesis in \"~^(\""),
        ("location", "rewrite a[ /;", "pcre2_compile() failed: missing terminating ] for character class in \"a[\""),
        ("location", "rewrite a)b /;", "pcre2_compile() failed: unmatched closing parenthesis in \"a)b\" at \")b\""),
        ("upstream", "sticky cookie;", "invalid number of arguments in \"sticky\" directive"),
        ("upstream", "sticky insert a;", "unknown parameter \"insert\""),
        ("upstream", "sticky cookie a; sticky cookie b;", "\"sticky\" directive is duplicate"),
        ("upstream", "sticky cookie '';", "\"sticky\" directive empty cookie name"),
        ("upstream", "sticky cookie a path=;", "\"sticky\" directive no value for \"path\""),
        ("upstream", "sticky cookie a domain=a domain=b;", "\"sticky\" directive parameter \"domain\" is duplicate"),
        ("upstream", "sticky cookie a secure secure;", "\"sticky\" directive parameter \"secure\" is duplicate"),
        ("upstream", "sticky cookie a expires=x;", "\"sticky\" directive invalid \"expires\" parameter value"),
        ("upstream", "sticky cookie a samesite=x;", "\"sticky\" directive invalid \"samesite\" parameter value"),
        ("upstream", "sticky cookie a samesite=$arg_a 'expires=1h 3m' domain=$host path=/ httponly secure;", ""),
        ("upstream", "sticky cookie a httponly=1;", "unknown parameter \"httponly=1\""),
        ("upstream", "sticky route a;", "invalid variable name \"a\""),
        ("upstream", "sticky route $arg_a $cookie_b;", ""),
        ("upstream", "sticky route $nothing;", "unknown \"nothing\" variable"),
        ("upstream", "sticky learn create=$cookie_a zone=z:64k;", "\"sticky\" directive \"lookup\" parameter is not specified"),
        ("upstream", "sticky learn lookup=$cookie_a zone=z:64k;", "\"sticky\" directive \"create\" parameter is not specified"),
        ("upstream", "sticky learn lookup=$cookie_a create=$cookie_a;", "\"sticky\" directive \"zone\" parameter is not specified"),
        ("upstream", "sticky learn lookup=cookie_a;", "\"sticky\" directive missing variable in the \"lookup\" parameter"),
        ("upstream", "sticky learn zone=z;", "\"sticky\" directive zone size is not specified"),
        ("upstream", "sticky learn zone=:64k;", "\"sticky\" directive zone name is not specified"),
        ("upstream", "sticky learn zone=z:16k;", "\"sticky\" directive zone is too small"),
        ("upstream", "sticky learn timeout=0;", "\"sticky\" directive invalid timeout"),
        ("upstream", "sticky learn timeout=1 timeout=1;", "\"sticky\" directive duplicate timeout"),
        ("upstream", "sticky learn lookup=$cookie_a create=$cookie_a zone=z:64k timeout=1h header; } upstream v { server 127.0.0.1; sticky learn lookup=$cookie_a create=$cookie_a zone=z:64k;", "sticky zone \"z\" is already used in upstream \"u\""),
        ("upstream", "server 127.0.0.1 route=;", "route is empty"),
        ("upstream", "server 127.0.0.1 route=012345678901234567890123456789012;", "route is longer than 32"),
        ("upstream", "server 127.0.0.1 drain route=01234567890123456789012345678901;", ""),
        ("upstream", "server 127.0.0.1 drain=1;", "invalid parameter \"drain=1\""),
        ("upstream", "least_time;", "invalid number of arguments in \"least_time\" directive"),
        ("upstream", "least_time body;", "invalid value \"body\""),
        ("upstream", "least_time header outflight;", "invalid parameter \"outflight\""),
        ("upstream", "least_time last_byte inflight;", ""),
        ("location", "dav_methods patch;", "invalid value \"patch\""),
        ("location", "dav_methods PUT delete MkCol; dav_access user:rw group:rw all:r; create_full_put_path on; min_delete_depth 2;", ""),
        ("location", "dav_access group:w;", "invalid value \"group:w\""),
        ("upstream", "zone a;", "zero size shared memory zone \"a\""),
        ("upstream", "zone a 16k;", "zone \"a\" is too small"),
        ("upstream", "zone a 64x;", "invalid zone size \"64x\""),
        ("upstream", "zone a 64k;", ""),
        ("location", "access_log off combined;", "invalid parameter \"combined\""),
        ("location", "access_log '' COMBINED;", ""),
        ("location", "access_log a$uri combined buffer=1k;", "buffered logs cannot have variables in name"),
        ("location", "access_log syslog:server=127.0.0.1 combined gzip;", "logs to syslog cannot be buffered"),
        ("main", "error_log '';", ""),
        ("location", "charset utf-8; source_charset koi8-r;", "no \"charset_map\" between the charsets \"koi8-r\" and \"utf-8\""),
        ("server", "charset utf-8; location / { source_charset off; }", "no \"charset_map\" between the charsets \"off\" and \"utf-8\""),
        ("server", "charset utf-8; location / { charset off; source_charset koi8-r; }", ""),
        ("http", "charset_map koi8-r utf-8 { } charset utf-8; source_charset KOI8-R;", ""),
        ("location", "charset $host; source_charset koi8-r;", ""),
        ("location", "valid_referers '';", "invalid referer \"\""),
        ("location", "valid_referers a..b/c;", "invalid hostname or wildcard \"a..b\""),
        ("location", "valid_referers a.test b.test; valid_referers none A.test/x;", "conflicting parameter \"A.test\""),
        ("location", "valid_referers .a.test *.a.test;", "conflicting parameter \"*.a.test\""),
        ("location", "valid_referers a.test *.a.test a.test.* ~a ~a;", ""),
        ("location", "valid_referers none blocked ~a;", "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer"),
        ("location", "valid_referers none server_names;", ""),
        ("server", "server_name a.test; location / { valid_referers server_names .a.test; }", "conflicting parameter \"a.test\""),
        ("main", "load_module modules/ngx_http_brotli_filter_module.so;", ""),
        ("main", "load_module ngx_http_zstd_static_module.so; load_module /a/ngx_http_zstd_static_module.so;", "module \"ngx_http_zstd_static_module\" is already loaded"),
        ("main", "events {} load_module ngx_http_zstd_static_module.so;", "\"load_module\" directive is specified too late"),
        ("main", "load_module modules/ngx_http_lua_module.so;", "module \"ngx_http_lua_module\" is not built into gallop, which cannot load modules; remove this line and the module's directives (built in: ngx_http_brotli_filter_module, ngx_http_brotli_static_module, ngx_http_zstd_filter_module, ngx_http_zstd_static_module, ngx_http_geoip2_module, ngx_stream_module, ngx_stream_geoip2_module)"),
        ("http", "load_module a.so;", "\"load_module\" directive is not allowed here"),
        ("main", "worker_cpu_affinity 0102;", "invalid character \"2\" in \"worker_cpu_affinity\""),
        ("main", "worker_cpu_affinity auto 0101;", ""),
        ("main", "worker_priority x;", "\"worker_priority\" directive invalid number"),
        ("main", "worker_processes x;", "\"worker_processes\" directive invalid value"),
        ("main", "daemon on; daemon maybe;", "\"daemon\" directive is duplicate"),
        ("http", "geo $a { ranges; 10.0.0.0-10.0.0.9 x; 10.0.0.5-10.0.0.15 y; }", "range \"10.0.0.5-10.0.0.15\" overlaps \"10.0.0.0-10.0.0.9\""),
        ("http", "geo $a { 10.0.0.0/8 x; ranges; }", "the \"ranges\" directive must be the first directive inside \"geo\" block"),
    ] {
        assert_eq!(said(place, directives), want, "{directives}");
    }
}

#[test]
fn password_pipe_is_not_read_by_parser() {
    let pipe = std::env::temp_dir().join(format!("gallop-passwords-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let (said_it, heard) = std::sync::mpsc::channel();
    let directive = format!("ssl_password_file {};", pipe.display());
    std::thread::spawn(move || said_it.send(said("server", &directive)));
    // Who opens it waits for somebody to write.
    let answer = heard.recv_timeout(std::time::Duration::from_secs(10));
    std::fs::remove_file(&pipe).unwrap();
    assert_eq!(answer.as_deref(), Ok(""));
}
