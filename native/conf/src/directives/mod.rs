//! The directives by subject.

mod access;
pub(crate) mod cache;
mod compress;
mod core_http;
pub mod files;
mod filters;
mod limits;
mod logs;
mod main;
mod maps;
mod modules;
mod rewrite;
mod server;
mod ssl;
pub(crate) mod status;
mod upstream;
pub mod upstream_conf;

use crate::table::Spec;

pub const TABLES: &[&[Spec]] = &[
    main::TABLE,
    core_http::TABLE,
    server::TABLE,
    files::TABLE,
    logs::TABLE,
    access::TABLE,
    limits::TABLE,
    filters::TABLE,
    maps::TABLE,
    modules::TABLE,
    compress::BROTLI,
    compress::ZSTD,
    rewrite::TABLE,
    ssl::TABLE,
    status::TABLE,
    upstream::TABLE,
    upstream_conf::PROXY,
    upstream_conf::FASTCGI,
];

pub use core_http::default_types;
pub use logs::{default_formats, COMBINED};
