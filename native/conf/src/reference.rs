//! Generates the reference of all directives from the directive table.

use crate::table::{ctx, rows, Arity, Setter, Spec, Takes};
use std::fmt::Write;

const CONTEXTS: [(u32, &str); 14] = [
    (ctx::MAIN, "main"),
    (ctx::EVENTS, "events"),
    (ctx::HTTP, "http"),
    (ctx::SRV, "server"),
    (ctx::LOC, "location"),
    (ctx::SIF, "if in server"),
    (ctx::LIF, "if in location"),
    (ctx::LMT, "limit_except"),
    (ctx::UPS, "upstream"),
    (ctx::STREAM, "stream"),
    (ctx::SSRV, "server in stream"),
    (ctx::SUPS, "upstream in stream"),
    (ctx::MATCH, "match"),
    (ctx::SMATCH, "match in stream"),
];

/// The differences from nginx, by directive. Directives without an entry follow nginx's
/// documentation.
const NOTES: &[(&str, &str)] = &[
    ("accept_mutex", NO_EFFECT),
    ("accept_mutex_delay", NO_EFFECT),
    (
        "acme_tls_challenges",
        "gallop's own: the folder with the key authorizations of TLS-ALPN-01 challenges (RFC 8737); each file's name is the SHA-256 of the domain name in base64url.",
    ),
    ("aio", NO_EFFECT),
    ("aio_write", NO_EFFECT),
    ("brotli", BROTLI),
    ("brotli_buffers", NO_EFFECT),
    ("brotli_comp_level", BROTLI),
    ("brotli_min_length", BROTLI),
    ("brotli_static", BROTLI),
    ("brotli_types", BROTLI),
    ("brotli_window", BROTLI),
    ("client_body_in_single_buffer", NO_EFFECT),
    (
        "confine_files",
        "gallop's own: `off` (default) or the folders that the files of a request must lie in, with all links resolved.",
    ),
    ("connection_pool_size", NO_EFFECT),
    (
        "debug_connection",
        "All other lines are logged too, as in nginx. gallop has only a few debug lines: the location, the upstream server, the outcome.",
    ),
    ("debug_points", NO_EFFECT),
    ("directio", NO_EFFECT),
    ("directio_alignment", NO_EFFECT),
    ("fastcgi_busy_buffers_size", NO_EFFECT),
    ("fastcgi_cache_path", CACHE_PATH),
    ("fastcgi_cache_purge", PURGE),
    ("fastcgi_send_lowat", NO_EFFECT),
    ("fastcgi_socket_keepalive", NO_EFFECT),
    ("fastcgi_temp_file_write_size", NO_EFFECT),
    ("geoip2", GEOIP2),
    ("geoip2_proxy", GEOIP2),
    ("geoip2_proxy_recursive", GEOIP2),
    ("gunzip_buffers", NO_EFFECT),
    ("gzip_buffers", NO_EFFECT),
    ("gzip_hash", NO_EFFECT),
    ("gzip_no_buffer", NO_EFFECT),
    ("gzip_window", NO_EFFECT),
    ("health_check", CHECKS),
    ("health_check_timeout", CHECKS),
    ("http2_idle_timeout", OBSOLETE),
    ("http2_max_concurrent_pushes", OBSOLETE),
    ("http2_max_field_size", OBSOLETE),
    ("http2_max_header_size", OBSOLETE),
    ("http2_max_requests", OBSOLETE),
    ("http2_pool_size", NO_EFFECT),
    ("http2_push", OBSOLETE),
    ("http2_push_preload", OBSOLETE),
    ("http2_recv_buffer_size", NO_EFFECT),
    ("http2_recv_timeout", OBSOLETE),
    ("http2_streams_index_size", NO_EFFECT),
    ("http3_hq", NO_EFFECT),
    ("keepalive_min_timeout", NO_EFFECT),
    (
        "load_module",
        "The modules of brotli, zstd, geoip2, and stream are built in: loading one writes a note. Others are refused.",
    ),
    ("lock_file", NO_EFFECT),
    ("map_hash_bucket_size", NO_EFFECT),
    ("map_hash_max_size", NO_EFFECT),
    ("match", CHECKS),
    (
        "master_process",
        "There is always a master. After `off` workers run as the user that starts gallop, as in nginx.",
    ),
    ("memcached_socket_keepalive", NO_EFFECT),
    ("grpc_socket_keepalive", NO_EFFECT),
    (
        "multi_accept",
        "No effect: up to 64 connections are accepted in a row.",
    ),
    (
        "open_file_cache",
        "No effect: responses of small files are prepared in memory, and gallop checks the file again after 50 ms.",
    ),
    ("open_file_cache_errors", NO_EFFECT),
    ("open_file_cache_events", NO_EFFECT),
    ("open_file_cache_min_uses", NO_EFFECT),
    ("open_file_cache_valid", NO_EFFECT),
    ("open_log_file_cache", NO_EFFECT),
    ("output_buffers", NO_EFFECT),
    ("pcre_jit", NO_EFFECT),
    ("postpone_gzipping", NO_EFFECT),
    ("postpone_output", NO_EFFECT),
    ("proxy_busy_buffers_size", NO_EFFECT),
    ("proxy_cache_path", CACHE_PATH),
    ("proxy_cache_purge", PURGE),
    (
        "prepared_responses_size",
        "gallop's own: bytes of each worker for prepared responses of small files, 16m by default, 0 for none.",
    ),
    (
        "prepared_responses_valid",
        "gallop's own: how long a prepared response is sent without a check of its files, 50ms by default; with 0 gallop checks them each time.",
    ),
    ("proxy_headers_hash_bucket_size", NO_EFFECT),
    ("proxy_headers_hash_max_size", NO_EFFECT),
    ("proxy_socket_keepalive", NO_EFFECT),
    ("proxy_ssl_conf_command", COMMANDS),
    (
        "proxy_ssl_password_file",
        "Keys in PKCS #8 with PBES2 and AES, as OpenSSL 3 writes them.",
    ),
    ("proxy_temp_file_write_size", NO_EFFECT),
    ("quic_active_connection_id_limit", NO_EFFECT),
    ("quic_bpf", NO_EFFECT),
    (
        "quic_retry_above",
        "gallop's own: number of handshakes in progress at a worker's socket above which clients get a Retry packet; a quarter of worker_connections, 16 to 1024, by default.",
    ),
    ("proxy_send_lowat", NO_EFFECT),
    ("read_ahead", NO_EFFECT),
    ("referer_hash_bucket_size", NO_EFFECT),
    ("referer_hash_max_size", NO_EFFECT),
    ("request_pool_size", NO_EFFECT),
    ("reset_timedout_connection", NO_EFFECT),
    ("scgi_busy_buffers_size", NO_EFFECT),
    ("scgi_cache_path", CACHE_PATH),
    ("scgi_cache_purge", PURGE),
    ("scgi_socket_keepalive", NO_EFFECT),
    ("scgi_temp_file_write_size", NO_EFFECT),
    ("send_lowat", NO_EFFECT),
    ("server_names_hash_bucket_size", NO_EFFECT),
    ("server_names_hash_max_size", NO_EFFECT),
    (
        "server_product",
        "gallop's own: the name in `Server` and on error pages, such as `nginx/1.31.4`.",
    ),
    ("ssi_ignore_recycled_buffers", NO_EFFECT),
    ("ssi_min_file_chunk", NO_EFFECT),
    ("ssi_value_length", "No effect: a command may take 16 KB."),
    ("ssl_buffer_size", NO_EFFECT),
    (
        "ssl_certificate",
        "Over QUIC its variables know only the name that the client asks for.",
    ),
    ("ssl_certificate_cache", "Counted by server block."),
    (
        "ssl_ciphers",
        "Names that rustls does not offer are left out.",
    ),
    ("ssl_conf_command", COMMANDS),
    ("ssl_dhparam", "Accepted, no effect: rustls offers no DHE."),
    (
        "ssl_early_data",
        "gallop then keeps sessions in its memory, each good for one use, not in tickets; over TCP the early request gets its response after the handshake is complete.",
    ),
    ("ssl_engine", "Refused: gallop uses rustls and AWS-LC, which have no engines."),
    ("ssl_ocsp", "Over HTTP/3 early requests wait for the check, too."),
    (
        "ssl_password_file",
        "Keys in PKCS #8 with PBES2 and AES, as OpenSSL 3 writes them.",
    ),
    (
        "ssl_stapling",
        "The first handshake of any client starts the request for an OCSP response, even if this client does not want one.",
    ),
    (
        "status",
        "gallop's own: shows the counters, with `format=json` (the default) or `format=prometheus`.",
    ),
    (
        "status_socket",
        "gallop's own: a unix socket, by default with `mode=0600`, with the status as JSON and at `/metrics` for Prometheus.",
    ),
    (
        "status_zone",
        "Name under which a server's requests count; by default its first name. nginx has this directive in its commercial edition only, and there in locations, too.",
    ),
    ("tcp_nodelay", "No effect: always on."),
    ("tcp_nopush", NO_EFFECT),
    ("thread_pool", NO_EFFECT),
    ("timer_resolution", NO_EFFECT),
    ("types_hash_bucket_size", NO_EFFECT),
    ("types_hash_max_size", NO_EFFECT),
    ("uninitialized_variable_warn", "Accepted, no effect: there is no such warning."),
    (
        "use",
        "epoll is the only method; any other name is refused.",
    ),
    ("uwsgi_busy_buffers_size", NO_EFFECT),
    ("uwsgi_cache_path", CACHE_PATH),
    ("uwsgi_cache_purge", PURGE),
    ("uwsgi_socket_keepalive", NO_EFFECT),
    ("uwsgi_ssl_conf_command", COMMANDS),
    (
        "uwsgi_ssl_password_file",
        "Keys in PKCS #8 with PBES2 and AES, as OpenSSL 3 writes them.",
    ),
    ("uwsgi_temp_file_write_size", NO_EFFECT),
    ("variables_hash_bucket_size", NO_EFFECT),
    ("variables_hash_max_size", NO_EFFECT),
    ("worker_aio_requests", NO_EFFECT),
    ("worker_connections", "For each thread."),
    ("worker_cpu_affinity", NO_EFFECT),
    ("worker_processes", "Threads of one worker process."),
    ("worker_rlimit_core", NO_EFFECT),
    ("working_directory", NO_EFFECT),
    ("zone", "Accepted; the threads share their state anyway."),
    ("zstd", ZSTD),
    ("zstd_buffers", NO_EFFECT),
    ("zstd_comp_level", ZSTD),
    ("zstd_min_length", ZSTD),
    ("zstd_static", ZSTD),
    ("zstd_types", ZSTD),
];
const OBSOLETE: &str = "Ignored with a warning, as in nginx.";
const GEOIP2: &str = "Not nginx's own: as in the module ngx_http_geoip2_module.";
const NO_EFFECT: &str = "Accepted, no effect.";
const CACHE_PATH: &str = "`use_temp_path`, `loader_*` and `manager_threshold` have no effect; \
                          the files' format is gallop's own.";
const CHECKS: &str = "As in nginx's commercial edition, see COMPATIBILITY.md.";
const COMMANDS: &str = "Certificate, PrivateKey, CipherString, Ciphersuites, MinProtocol, MaxProtocol, Curves, \
                        Groups and Options with SessionTicket, ServerPreference and KTLS (without effect); others \
                        are refused.";
const PURGE: &str = "As in nginx's commercial edition.";
const BROTLI: &str = "Not nginx's own: as in the module ngx_brotli.";
const ZSTD: &str = "Not nginx's own: as in the module zstd-nginx-module.";

fn contexts(spec: &Spec) -> String {
    let known = CONTEXTS.iter().filter(|(bit, _)| spec.contexts & bit != 0);
    known.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

fn count(Arity(least, most): Arity) -> String {
    match (least, most) {
        (0, 0) => "none".to_string(),
        (a, b) if a == b => a.to_string(),
        (a, usize::MAX) => format!("{a} or more"),
        (a, b) => format!("{a} to {b}"),
    }
}

fn arguments(spec: &Spec) -> String {
    let kind = match spec.set {
        Setter::Flag(_) => "`on` or `off`",
        Setter::Size(_) => "size",
        Setter::Num(_) => "number",
        Setter::Msec(_) | Setter::Sec(_) => "time",
        Setter::Str(_) => "text",
        Setter::Bufs(_) => "number, size",
        Setter::Tmpl(_) => "text with variables",
        Setter::ConfPath(_) => "file, relative to the configuration",
        Setter::TempPath(_) => "folder, relative to the prefix",
        Setter::Strings(_) => "words",
        Setter::Unused(Takes::Flag) => "`on` or `off`",
        Setter::Unused(Takes::Size | Takes::Pool) => "size",
        Setter::Unused(Takes::Num | Takes::PowerOfTwo) => "number",
        Setter::Unused(Takes::Msec) => "time",
        Setter::Unused(Takes::Bufs) => "number, size",
        Setter::Fn(_) if spec.block => return format!("{}, block", count(spec.arity)),
        Setter::Fn(_) | Setter::Unused(Takes::Text) | Setter::Obsolete(_) => {
            return count(spec.arity)
        }
    };
    kind.to_string()
}

fn note(spec: &Spec) -> &'static str {
    // Tests of `match` share names with other directives.
    if spec.contexts & (ctx::MATCH | ctx::SMATCH) != 0 {
        return "";
    }
    note_of(spec.name)
}

fn note_of(name: &str) -> &'static str {
    NOTES
        .iter()
        .find(|(n, _)| *n == name)
        .map_or("", |(_, text)| text)
}

/// All directives by name with their contexts, arguments, and differences from nginx, as Markdown.
pub fn markdown() -> String {
    let mut specs: Vec<&Spec> = rows().collect();
    specs.sort_by_key(|spec| (spec.name, spec.contexts));
    let mut text = format!(
        "# gallop's directives\n\n\
         Generated from the directive table (native/conf/src/table.rs) with\n\
         `UPDATE_REFERENCE=1 cargo test -p gallop-conf --test reference`. {} rows. Each directive works as\n\
         nginx's documentation says, with the differences in the last column. gallop refuses all other directives\n\
         when the configuration is tested. COMPATIBILITY.md lists the differences of the server as a whole.\n\n\
         | Directive | Where | Arguments | Difference from nginx |\n|---|---|---|---|\n",
        specs.len()
    );
    for spec in specs {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            spec.name,
            contexts(spec),
            arguments(spec),
            note(spec)
        );
    }
    text
}

/// Names that have a note but no row.
pub fn stray_notes() -> Vec<&'static str> {
    let has_row = |name: &str| rows().any(|spec| spec.name == name);
    let notes = NOTES.iter().map(|(name, _)| *name);
    notes.filter(|name| !has_row(name)).collect()
}

/// Directives without an effect that have no note about it.
pub fn silent_rows() -> Vec<&'static str> {
    let has_no_effect = |s: &Spec| matches!(s.set, Setter::Unused(_) | Setter::Obsolete(_));
    let silent = rows().filter(|s| has_no_effect(s) && note(s).is_empty());
    silent.map(|spec| spec.name).collect()
}
