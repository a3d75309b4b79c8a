//! `stream`: sessions of TCP and UDP that are passed on as they are.

use super::{
    inherited, CheckConf, LimitZone, ListenAddr, Listener, LocConf, LogFormat, Server, Target,
    Upstream,
};
use crate::template::Template;
use crate::vars::{VarId, VarTable};
use std::sync::Arc;

/// The stream block. Its server blocks have the form of http's, with a [`StreamServer`] each.
#[derive(Debug)]
pub struct Stream {
    /// The settings outside of server blocks.
    pub settings: Arc<LocConf>,
    pub servers: Vec<Arc<Server>>,
    pub listeners: Vec<Listener>,
    pub upstreams: Vec<Arc<Upstream>>,
    pub log_formats: Vec<LogFormat>,
    pub limit_conn_zones: Vec<LimitZone>,
    pub vars: VarTable,
}

/// The part of a server block that only `stream` has.
#[derive(Clone, Debug, Default)]
pub struct StreamServer {
    pub conf: StreamConf,
    pub handler: Option<StreamHandler>,
    /// `set`, in order.
    pub sets: Vec<(VarId, Template)>,
    pub checks: Vec<CheckConf>,
}

/// The content of a session.
#[derive(Clone, Debug)]
pub enum StreamHandler {
    Proxy(StreamPass),
    /// `pass`: a listening socket of this configuration takes the connection.
    Pass(Handover),
    Return(Template),
}

/// The address of the listening socket that takes a connection.
#[derive(Clone, Debug)]
pub enum Handover {
    Fixed(ListenAddr),
    /// It contains variables.
    Variable(Template),
}

/// `proxy_pass` of `stream`.
#[derive(Clone, Debug)]
pub struct StreamPass {
    pub target: Target,
    /// The address, if it contains variables.
    pub address: Option<Template>,
    /// The host without its port as written, the default of `proxy_ssl_name`.
    pub host: String,
}

/// The version of the PROXY protocol that a server of an upstream is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProxy {
    Off,
    V1,
    V2,
}

inherited! {
    /// The settings that only `stream` has. Times are in milliseconds.
    pub struct StreamConf {
        preread_buffer_size: u64,
        preread_timeout: u64,
        proxy_protocol_timeout: u64,
        ssl_preread: bool,
        ssl_handshake_timeout: u64,
        ssl_alpn: Arc<Vec<String>>,
        timeout: u64,
        health_check_timeout: u64,
        half_close: bool,
        upload_rate: Template,
        download_rate: Template,
        next_upstream: bool,
        /// Datagrams of a client until its next one begins a session; 0 is no limit.
        requests: u64,
        /// Datagrams that answer one of a client.
        responses: u64,
        proxy_protocol: SendProxy,
        proxy_ssl: bool,
    }
}
