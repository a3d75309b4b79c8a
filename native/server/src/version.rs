//! The output of `-V`. Each `--without-` names a module of nginx that gallop lacks.

/// Modules of nginx's default build that gallop lacks.
const WITHOUT: &[&str] = &[
    "http_browser_module",
    "http_tunnel_module",
    "mail_pop3_module",
    "mail_imap_module",
    "mail_smtp_module",
];

/// Supported modules outside of nginx's default build.
const WITH: &[&str] = &[
    "debug",
    "http_ssl_module",
    "http_v2_module",
    "http_v3_module",
    "http_realip_module",
    "http_auth_request_module",
    "http_stub_status_module",
    "http_gzip_static_module",
    "http_gunzip_module",
    "http_slice_module",
    "http_addition_module",
    "http_sub_module",
    "http_secure_link_module",
    "http_random_index_module",
    "http_dav_module",
    "http_flv_module",
    "http_mp4_module",
    "stream",
    "stream_ssl_module",
    "stream_ssl_preread_module",
    "stream_realip_module",
];

pub fn short() -> String {
    format!("gallop version: {}", gallop_engine::PRODUCT_VERSION)
}

/// The version of nginx whose configuration is supported, in the format of nginx's own `-V`, which
/// scripts parse. Other servers of its family do the same.
const FOLLOWS: &str = "nginx version: nginx/1.31.4 (whose configuration is read)";

/// The TLS library, and the OpenSSL version whose names `ssl_ciphers` and `ssl_ecdh_curve` use.
const CRYPTOGRAPHY: &str = "built with rustls 0.23 and aws-lc-rs \
     (directives and variables as of an nginx with OpenSSL 3.5.1)";

pub fn long() -> String {
    let mut arguments: Vec<String> = WITH.iter().map(|m| format!("--with-{m}")).collect();
    arguments.extend(WITHOUT.iter().map(|m| format!("--without-{m}")));
    format!(
        "{}\n{FOLLOWS}\n{CRYPTOGRAPHY}\nTLS SNI support enabled\nconfigure arguments: {}",
        short(),
        arguments.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_conf::table::{ctx, rows};

    /// For each module, a directive that only it has.
    const MARKS: &[(&str, &str)] = &[
        ("http_userid_module", "userid"),
        ("http_uwsgi_module", "uwsgi_pass"),
        ("http_scgi_module", "scgi_pass"),
        ("http_grpc_module", "grpc_pass"),
        ("http_memcached_module", "memcached_pass"),
        ("http_browser_module", "modern_browser"),
        ("http_tunnel_module", "tunnel_pass"),
        ("http_upstream_least_time_module", "least_time"),
        ("http_upstream_sticky_module", "sticky"),
        ("mail_pop3_module", "pop3_auth"),
        ("mail_imap_module", "imap_auth"),
        ("mail_smtp_module", "smtp_auth"),
        ("stream", "stream"),
        ("stream_ssl_module", "ssl_certificate"),
        ("stream_ssl_preread_module", "ssl_preread"),
        ("stream_realip_module", "set_real_ip_from"),
        ("stream_pass_module", "pass"),
        ("stream_upstream_least_time_module", "least_time"),
        ("debug", "debug_connection"),
        ("http_ssl_module", "ssl_certificate"),
        ("http_v2_module", "http2"),
        ("http_v3_module", "http3"),
        ("http_realip_module", "set_real_ip_from"),
        ("http_auth_request_module", "auth_request"),
        ("http_stub_status_module", "stub_status"),
        ("http_gzip_static_module", "gzip_static"),
        ("http_gunzip_module", "gunzip"),
        ("http_slice_module", "slice"),
        ("http_addition_module", "add_before_body"),
        ("http_sub_module", "sub_filter"),
        ("http_secure_link_module", "secure_link"),
        ("http_random_index_module", "random_index"),
        ("http_dav_module", "dav_methods"),
        ("http_flv_module", "flv"),
        ("http_mp4_module", "mp4"),
    ];

    #[test]
    fn it_says_that_it_has_what_the_directive_table_has() {
        let is_known = |module: &str, directive: &str| {
            let of_stream = |contexts| contexts & (ctx::ANY_STREAM | ctx::MAIN) != 0;
            rows().any(|spec| {
                let fits = !module.starts_with("stream") || of_stream(spec.contexts);
                spec.name == directive && fits
            })
        };
        for (modules, offered) in [(WITH, true), (WITHOUT, false)] {
            for module in modules {
                let mark = MARKS.iter().find(|(name, _)| name == module);
                let (_, directive) = mark.unwrap_or_else(|| panic!("no mark of {module}"));
                assert_eq!(
                    is_known(module, directive),
                    offered,
                    "{module} ({directive})"
                );
            }
        }
    }
}
