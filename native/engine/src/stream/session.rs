//! A session: its client, its server block, and its variables.

use super::status;
use crate::conn::Conn;
use crate::exchange::{Guard, Value};
use crate::scope::{set_captures, Scope};
use crate::upstream::Attempt;
use crate::vars::connection::{self, Client};
use crate::vars::proxy_protocol_tlv;
use crate::worker::Worker;
use crate::{access, limits, log, realip, template};
use gallop_conf::model::{items, Level, LocConf, Server, Stream as StreamBlock, StreamConf};
use gallop_conf::pattern::Groups;
use gallop_conf::vars::{Builtin as B, Prefix, VarTable};
use gallop_http::client_hello::ClientHello;
use gallop_runtime::now_ms;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

pub struct Session {
    pub worker: Rc<Worker>,
    pub conn: Conn,
    pub server: Arc<Server>,
    client: Option<IpAddr>,
    client_port: u16,
    values: RefCell<Vec<Option<Value>>>,
    captures: RefCell<(Vec<u8>, Groups)>,
    pub attempts: Vec<Attempt>,
    /// The client's offer, after `ssl_preread` has read it.
    pub hello: Option<ClientHello>,
    /// Bytes from and to the client.
    pub received: u64,
    pub sent: u64,
    status: u16,
    limited: Cell<Option<&'static str>>,
    /// Places in limits, released when the session ends.
    guards: Vec<Guard>,
    /// The start in milliseconds (monotonic clock).
    started: u64,
}

impl Session {
    /// A session of the default server block of the connection's address.
    pub fn new(worker: Rc<Worker>, conn: Conn) -> Session {
        let server = conn.endpoint.hosts.default.clone();
        let session = Session::of(worker, conn, server);
        let (id, source, at) = (session.conn.id, session.source(), session.at());
        let udp = session.udp();
        let line = format!("*{id} {udp}client {source} connected to {at}");
        session.write_log(Level::Info, &line);
        session
    }

    /// A session of a server block, with the variables that it sets.
    pub fn of(worker: Rc<Worker>, conn: Conn, server: Arc<Server>) -> Session {
        let vars = worker.stream().vars.len();
        let mut session = Session {
            client: conn.peer().map(|peer| peer.ip()),
            client_port: conn.peer().map_or(0, |peer| peer.port()),
            worker,
            conn,
            server,
            values: RefCell::new(vec![None; vars]),
            captures: RefCell::default(),
            attempts: Vec::new(),
            hello: None,
            received: 0,
            sent: 0,
            status: 0,
            limited: Cell::new(None),
            guards: Vec::new(),
            started: now_ms(),
        };
        session.take_real_address();
        session.set_variables();
        session
    }

    /// `set_real_ip_from`: the address that a trusted proxy tells.
    fn take_real_address(&mut self) {
        let trusted = items(&self.server.root.conf.set_real_ip_from);
        if let Some(addr) = realip::told_by_proxy(&self.conn, self.client, trusted) {
            (self.client, self.client_port) = (Some(addr.ip()), addr.port());
        }
    }

    /// The settings that only `stream` has.
    pub fn conf(&self) -> &StreamConf {
        let stream = self.server.stream.as_ref();
        &stream
            .expect("listeners of stream have its server blocks")
            .conf
    }

    fn block(&self) -> &StreamBlock {
        self.worker.stream()
    }

    /// Evaluate `set`.
    fn set_variables(&mut self) {
        let server = self.server.clone();
        for (var, value) in server.stream.iter().flat_map(|s| &s.sets) {
            let value = template::eval(self, value);
            self.values.borrow_mut()[var.0 as usize] = Some(Some(value.into()));
        }
    }

    /// Count the session in its limits, and check `allow` and `deny`.
    ///
    /// # Errors
    /// The status of a session that is refused.
    pub fn admit(&mut self) -> Result<(), u16> {
        let server = self.server.clone();
        let worker = self.worker.clone();
        let declared = &worker.stream().limit_conn_zones;
        let told = |_, outcome| self.limited.set(Some(outcome));
        let places = limits::count(self, declared, &worker.shared.stream_zones, told);
        self.guards = places.ok_or(status::SERVICE_UNAVAILABLE)?;
        let rules = items(&server.root.conf.access);
        if access::permits(rules, self.client) == Some(false) {
            self.log(Level::Error, "access forbidden by rule");
            return Err(status::FORBIDDEN);
        }
        Ok(())
    }

    /// Continue with the server block of a name, if one of the address has it.
    pub fn name(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let endpoint = self.conn.endpoint.clone();
        let chosen = endpoint.hosts.choose(name.trim_end_matches('.'));
        self.server = chosen.server.clone();
        if let Some((pattern, groups)) = chosen.matched {
            set_captures(self, name.as_bytes(), groups, pattern);
        }
    }

    /// Record the status and write the access log.
    pub fn finish(mut self, status: u16) {
        self.status = status;
        let server = self.server.clone();
        let logs = items(&server.root.conf.access_log);
        if !logs.is_empty() {
            let worker = self.worker.clone();
            log::write_lines(&self, logs, &worker.stream().log_formats);
        }
        self.guards.clear();
    }

    /// End the session without a line in the access log, since its connection goes on elsewhere.
    /// Returns its places in limits.
    pub fn leave(self) -> Vec<Guard> {
        self.guards
    }

    /// The client's address, and the local one, for a server that is told of them.
    pub fn ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let source = self.client.map(|ip| SocketAddr::new(ip, self.client_port));
        (source, self.conn.local())
    }

    /// The word of the error log for clients of UDP.
    fn udp(&self) -> &'static str {
        match self.conn.endpoint.udp {
            true => "udp ",
            false => "",
        }
    }

    fn source(&self) -> String {
        match self.ends().0 {
            Some(addr) => addr.to_string(),
            None => "unix:".to_string(),
        }
    }

    /// The address that the client is connected to.
    fn at(&self) -> String {
        match self.conn.local() {
            Some(addr) => addr.to_string(),
            None => self.conn.local_name().to_string(),
        }
    }

    fn write_log(&self, level: Level, line: &str) {
        let own = self.server.root.conf.error_log.as_ref();
        let logs = own.map_or(&self.worker.shared.error_log, |own| own.as_ref());
        log::error_to(logs, level, line);
    }

    fn own_variable(&self, variable: B, out: &mut Vec<u8>) -> Option<bool> {
        let some = |out: &mut Vec<u8>, value: Option<&[u8]>| {
            out.extend_from_slice(value.unwrap_or_default());
            Some(value.is_some())
        };
        let show = |out: &mut Vec<u8>, value: &dyn std::fmt::Display| {
            // Writing to memory cannot fail.
            let _ = write!(out, "{value}");
            Some(true)
        };
        let hello = self.hello.as_ref();
        match variable {
            B::BytesReceived => show(out, &self.received),
            B::BytesSent => show(out, &self.sent),
            B::Protocol if self.conn.endpoint.udp => some(out, Some(b"UDP")),
            B::Protocol => some(out, Some(b"TCP")),
            B::SessionTime => {
                let ms = now_ms().saturating_sub(self.started);
                show(out, &format_args!("{}.{:03}", ms / 1000, ms % 1000))
            }
            B::Status => show(out, &format_args!("{:03}", self.status)),
            B::LimitConnStatus => some(out, self.limited.get().map(str::as_bytes)),
            B::SslPrereadServerName => some(out, hello.map(|h| h.server_name.as_slice())),
            B::SslPrereadAlpnProtocols => {
                let joined = hello.map(|h| h.protocols.join(&b","[..]));
                some(out, joined.as_deref())
            }
            B::SslPrereadProtocol => some(out, hello.map(|h| h.version.as_bytes())),
            _ => None,
        }
    }
}

impl Scope for Session {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn settings(&self) -> &LocConf {
        &self.server.root.conf
    }

    fn table(&self) -> &VarTable {
        &self.block().vars
    }

    fn values(&self) -> &RefCell<Vec<Option<Value>>> {
        &self.values
    }

    fn captures(&self) -> &RefCell<(Vec<u8>, Groups)> {
        &self.captures
    }

    fn builtin(&self, variable: B, out: &mut Vec<u8>) -> bool {
        let client = Client {
            conn: &self.conn,
            ip: self.client,
            port: self.client_port,
            server_name: &self.server.name,
        };
        self.own_variable(variable, out)
            .or_else(|| connection::eval(&client, variable, out))
            .or_else(|| connection::attempts(&self.attempts, variable, out))
            .or_else(|| connection::tls(&self.conn, variable, out))
            .unwrap_or(false)
    }

    fn prefixed(&self, prefix: Prefix, name: &str, out: &mut Vec<u8>) -> bool {
        match prefix {
            Prefix::ProxyProtocolTlv => proxy_protocol_tlv(&self.conn, name, out),
            _ => false,
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn forwarded_for(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    fn log(&self, level: Level, message: &str) {
        let client = self.client.map_or("unix:".to_string(), |ip| ip.to_string());
        let (id, at) = (self.conn.id, self.at());
        let udp = self.udp();
        let mut line = format!("*{id} {message}, {udp}client: {client}, server: {at}");
        if let Some(attempt) = self.attempts.last() {
            let _ = std::fmt::Write::write_fmt(
                &mut line,
                format_args!(
                    ", upstream: \"{}\", bytes from/to client:{}/{}, bytes from/to upstream:{}/{}",
                    attempt.peer,
                    self.received,
                    self.sent,
                    attempt.times.received.get(),
                    attempt.times.sent.get()
                ),
            );
        }
        self.write_log(level, &line);
    }
}
