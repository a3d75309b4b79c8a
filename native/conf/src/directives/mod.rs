//! The directives by subject.

mod access;
pub mod applications;
pub(crate) mod cache;
mod clients;
mod compress;
mod dav;
mod error_pages;
pub mod files;
mod filters;
mod geoip2;
mod hashes;
mod health;
mod limits;
mod load_module;
mod location;
mod logs;
mod main;
mod maps;
mod modules;
mod resolver;
mod response_heads;
mod rewrite;
mod sending;
mod server;
mod ssl;
pub(crate) mod status;
mod sticky;
pub(crate) mod stream;
mod types;
mod upstream;
pub mod upstream_conf;
mod upstream_shared;
mod userid;

use crate::table::Spec;

pub const TABLES: &[&[Spec]] = &[
    main::TABLE,
    location::TABLE,
    types::TABLE,
    error_pages::TABLE,
    clients::TABLE,
    sending::TABLE,
    response_heads::TABLE,
    hashes::TABLE,
    resolver::TABLE,
    server::TABLE,
    files::TABLE,
    dav::TABLE,
    logs::TABLE,
    access::TABLE,
    limits::TABLE,
    filters::TABLE,
    maps::TABLE,
    geoip2::TABLE,
    modules::TABLE,
    compress::BROTLI,
    compress::ZSTD,
    rewrite::TABLE,
    ssl::TABLE,
    status::TABLE,
    upstream::TABLE,
    sticky::TABLE,
    health::TABLE,
    upstream_conf::CONNECTION,
    upstream_conf::TLS,
    upstream_conf::PROXY,
    applications::FASTCGI_CONNECTION,
    applications::FASTCGI,
    applications::UWSGI_CONNECTION,
    applications::UWSGI_TLS,
    applications::UWSGI,
    applications::SCGI_CONNECTION,
    applications::SCGI,
    applications::MEMCACHED_CONNECTION,
    applications::MEMCACHED,
    applications::GRPC_CONNECTION,
    applications::GRPC_TLS,
    applications::GRPC,
    userid::TABLE,
    stream::TABLE,
    stream::TLS,
];

pub use logs::{default_formats, COMBINED};
pub(crate) use types::default_types;
