//! Variables computed from other variables (map, geo, split_clients), and the zones of limits.

use crate::cidr::Cidr;
use crate::geo::Addresses;
use crate::mmdb::{Database, Metadata, Step};
use crate::pattern::Pattern;
use crate::template::Template;
use hashbrown::HashMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Map {
    pub source: Template,
    /// Whether any result contains variables.
    pub computed: bool,
    /// The keys are in lower case.
    pub exact: HashMap<Box<[u8]>, Template>,
    /// With `hostnames`: `*.example.com`, stored reversed like server names.
    pub wildcard_head: HashMap<Box<[u8]>, Template>,
    pub wildcard_tail: HashMap<Box<[u8]>, Template>,
    pub regexes: Vec<(Pattern, Template)>,
    pub default: Template,
    pub hostnames: bool,
    pub volatile: bool,
}

#[derive(Debug, Default)]
pub struct Geo {
    /// The address to look up; `$remote_addr` if unset.
    pub source: Option<Template>,
    pub default: Arc<[u8]>,
    pub addresses: Addresses,
    pub proxies: Vec<Cidr>,
    pub proxy_recursive: bool,
    pub volatile: bool,
}

/// A variable of a `geoip2` block.
#[derive(Debug)]
pub struct Geoip2 {
    pub database: Arc<Database>,
    pub datum: Datum,
    /// The address to look up; the client's if unset.
    pub source: Option<Template>,
    pub default: Option<Arc<[u8]>>,
}

/// The value of a `geoip2` variable.
#[derive(Clone, Debug)]
pub enum Datum {
    Field(Vec<Step>),
    Metadata(Metadata),
}

#[derive(Debug, Default)]
pub struct SplitClients {
    pub source: Template,
    /// The upper bounds of the hash, in order; the last is `None` for `*`.
    pub parts: Vec<(Option<u32>, Template)>,
}

/// `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug)]
pub struct LimitZone {
    pub name: String,
    pub key: Template,
    /// The size in bytes, which limits the number of states.
    pub size: u64,
    /// The rate in thousandths of a request per second (limit_req only).
    pub rate: u64,
}
