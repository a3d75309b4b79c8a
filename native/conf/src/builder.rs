//! The state while directives are applied. The setters in the directive table change it.

use crate::cidr::Cidr;
use crate::error::{ConfError, Place, Result};
use crate::model::*;
use crate::names::ServerName;
use crate::parser::Directive;
use crate::pattern::Pattern;
use crate::table::{self, ctx};
use crate::template::Template;
use crate::vars::VarTable;
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A location under construction.
#[derive(Debug)]
pub struct LocNode {
    pub name: String,
    pub kind: LocKind,
    /// The settings made at this level. Most locations have none, and the settings are large.
    pub conf: Option<Box<LocConf>>,
    pub handler: Option<Handler>,
    pub ops: Vec<Op>,
    pub ifs: Vec<LocNode>,
    pub try_files: Option<Arc<TryFiles>>,
    pub checks: Vec<CheckConf>,
    pub internal: Option<bool>,
    pub limit_except: Option<(Vec<String>, Box<LocNode>)>,
    pub children: Vec<LocNode>,
    pub place: Place,
}

impl LocNode {
    pub fn new(name: &str, kind: LocKind, place: &Place) -> LocNode {
        LocNode {
            name: name.into(),
            kind,
            conf: None,
            handler: None,
            ops: Vec::new(),
            ifs: Vec::new(),
            try_files: None,
            checks: Vec::new(),
            internal: None,
            limit_except: None,
            children: Vec::new(),
            place: place.clone(),
        }
    }
}

/// A server block under construction.
#[derive(Debug)]
pub struct ServerNode {
    pub conf: SrvConf,
    pub names: Vec<ServerName>,
    pub first_name: Option<String>,
    pub listens: Vec<Listen>,
    /// `status_zone`.
    pub zone: Option<String>,
    pub root: LocNode,
    /// The part of a server block of `stream`.
    pub stream: StreamServer,
    pub place: Place,
}

/// The http block, or the stream block, under construction: zones by name, with the directive that declared them.
#[derive(Debug, Default)]
pub struct HttpNode {
    pub servers: Vec<ServerNode>,
    pub conf: SrvConf,
    pub upstreams: Vec<Upstream>,
    pub upstream_index: HashMap<String, usize>,
    pub log_formats: Vec<LogFormat>,
    pub limit_req_zones: Vec<LimitZone>,
    pub limit_conn_zones: Vec<LimitZone>,
    pub charset_maps: Vec<Arc<CharsetMap>>,
    pub cache_zones: Vec<CacheZone>,
    /// Caches in use: name, directive, place.
    pub cache_uses: Vec<(String, String, Place)>,
    /// Zones used before their declaration: index, kind, place of the first use.
    pub zone_uses: Vec<(usize, &'static str, Place)>,
    /// Upstream zones whose size is known.
    pub sized_zones: hashbrown::HashSet<String>,
    /// The tests of `match` blocks by name.
    pub matches: HashMap<String, Arc<Tests>>,
    /// The upstream groups of `sticky` zones.
    pub sticky_zones: HashMap<String, String>,
    /// The databases of `geoip2`.
    pub geoip2_files: Vec<PathBuf>,
    /// Whether a directive shows counters.
    pub is_metered: bool,
    pub status_socket: Option<Listen>,
    /// The settings of the stream block itself.
    pub stream: StreamConf,
}

/// The stream block after it was read. Its settings, zones, and groups have the forms of the http
/// block; its variables are its own.
#[derive(Debug)]
pub struct StreamNode {
    pub node: HttpNode,
    pub top: LocNode,
    pub vars: VarTable,
}

pub struct Builder {
    pub prefix: PathBuf,
    pub conf_prefix: PathBuf,
    pub main: Main,
    pub vars: VarTable,
    pub warnings: Vec<String>,
    pub notices: Vec<String>,
    pub ctx: u32,
    /// The http block; while the stream block is read, that one.
    pub http: Option<HttpNode>,
    pub stream: Option<StreamNode>,
    /// The server block being read.
    pub server: Option<ServerNode>,
    /// The locations being read, outermost first; the http level is at the bottom.
    pub locs: Vec<LocNode>,
    pub upstream: Option<Upstream>,
    /// The `match` block being read.
    pub tests: Option<Tests>,
    /// Names of directives that may appear only once per block.
    pub seen: Vec<&'static str>,
    /// Collects the operations of nested `if` blocks.
    pub op_stack: Vec<Vec<Op>>,
    /// Regular expressions by text and case sensitivity, since many server blocks share them.
    patterns: HashMap<(String, bool), Pattern>,
}

impl Builder {
    pub fn new(prefix: &Path, conf_prefix: &Path) -> Builder {
        Builder {
            prefix: prefix.to_path_buf(),
            conf_prefix: conf_prefix.to_path_buf(),
            main: Main::default(),
            vars: VarTable::default(),
            warnings: Vec::new(),
            notices: Vec::new(),
            ctx: ctx::MAIN,
            http: None,
            stream: None,
            server: None,
            locs: Vec::new(),
            upstream: None,
            tests: None,
            seen: Vec::new(),
            op_stack: Vec::new(),
            patterns: HashMap::new(),
        }
    }

    /// Apply the directives of one block.
    pub fn apply_all(&mut self, directives: &[Directive]) -> Result<()> {
        directives.iter().try_for_each(|d| table::apply(self, d))?;
        table::check_once(directives)
    }

    /// Apply a block's directives in another context.
    pub fn apply_in(&mut self, context: u32, directive: &Directive) -> Result<()> {
        let outer = std::mem::replace(&mut self.ctx, context);
        let result = self.apply_all(directive.block.as_deref().unwrap_or(&[]));
        self.ctx = outer;
        result
    }

    /// Apply the block of a location and return the finished location.
    pub fn read_location(&mut self, node: LocNode, context: u32, d: &Directive) -> Result<LocNode> {
        self.locs.push(node);
        let result = self.apply_in(context, d);
        let node = self.locs.pop().expect("the location pushed above");
        result.map(|()| node)
    }

    /// The settings of the innermost block.
    pub fn loc(&mut self) -> &mut LocConf {
        self.node().conf.get_or_insert_default()
    }

    pub fn node(&mut self) -> &mut LocNode {
        self.locs
            .last_mut()
            .expect("location directives are only allowed inside http")
    }

    pub fn srv(&mut self) -> &mut SrvConf {
        let http = self
            .http
            .as_mut()
            .expect("server directives are only allowed inside http");
        self.server.as_mut().map_or(&mut http.conf, |s| &mut s.conf)
    }

    pub fn http(&mut self) -> &mut HttpNode {
        self.http
            .as_mut()
            .expect("http directives are only allowed inside http")
    }

    /// The settings of the stream block or of its server block.
    pub fn stream(&mut self) -> &mut StreamConf {
        let http = self
            .http
            .as_mut()
            .expect("stream directives are only allowed inside stream");
        let server = self.server.as_mut();
        server.map_or(&mut http.stream, |s| &mut s.stream.conf)
    }

    pub fn is_in_stream(&self) -> bool {
        self.ctx & ctx::ANY_STREAM != 0
    }

    /// Apply the stream block with variables, patterns, zones, and groups of its own.
    pub fn read_stream(&mut self, d: &Directive) -> Result<()> {
        let http = self.http.replace(HttpNode::default());
        let top = LocNode::new("", LocKind::Server, &d.place);
        let locs = std::mem::replace(&mut self.locs, vec![top]);
        let vars = std::mem::replace(&mut self.vars, VarTable::of_stream());
        let patterns = std::mem::take(&mut self.patterns);
        let result = self.apply_in(ctx::STREAM, d);
        let node = std::mem::replace(&mut self.http, http);
        let top = std::mem::replace(&mut self.locs, locs).pop();
        let vars = std::mem::replace(&mut self.vars, vars);
        self.patterns = patterns;
        result?;
        let (node, top) = node.zip(top).expect("both were set above");
        self.stream = Some(StreamNode { node, top, vars });
        Ok(())
    }

    pub fn proxy(&mut self) -> &mut UpConf {
        Arc::make_mut(self.loc().proxy.get_or_insert_with(Arc::default))
    }

    pub fn fastcgi(&mut self) -> &mut UpConf {
        self.application(AppProtocol::Fastcgi)
    }

    pub fn uwsgi(&mut self) -> &mut UpConf {
        self.application(AppProtocol::Uwsgi)
    }

    pub fn scgi(&mut self) -> &mut UpConf {
        self.application(AppProtocol::Scgi)
    }

    pub fn memcached(&mut self) -> &mut UpConf {
        self.application(AppProtocol::Memcached)
    }

    pub fn grpc(&mut self) -> &mut UpConf {
        self.application(AppProtocol::Grpc)
    }

    fn application(&mut self, protocol: AppProtocol) -> &mut UpConf {
        let conf = self.loc().application_mut(protocol);
        Arc::make_mut(conf.get_or_insert_with(Arc::default))
    }

    pub fn up(&mut self) -> &mut Upstream {
        self.upstream
            .as_mut()
            .expect("upstream directives are only allowed inside upstream")
    }

    pub fn template(&mut self, text: &str, place: &Place) -> Result<Template> {
        Template::parse(text, &mut self.vars, place)
    }

    pub fn pattern(&mut self, source: &str, caseless: bool, place: &Place) -> Result<Pattern> {
        let key = (source.to_string(), caseless);
        if let Some(known) = self.patterns.get(&key) {
            return Ok(known.clone());
        }
        let pattern = Pattern::compile(source, caseless, &mut self.vars, place)?;
        self.patterns.insert(key, pattern.clone());
        Ok(pattern)
    }

    /// A path relative to the server's prefix.
    pub fn path(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    /// A path relative to the configuration file's folder.
    pub fn conf_path(&self, name: &str) -> PathBuf {
        self.conf_prefix.join(name)
    }

    /// A path with variables; relative paths start at `base` unless they begin with a variable.
    pub fn path_template(&mut self, text: &str, base: &Path, place: &Place) -> Result<Template> {
        let full = if text.starts_with('/') || text.starts_with('$') || text.is_empty() {
            text.to_string()
        } else {
            format!(
                "{}/{text}",
                base.display().to_string().trim_end_matches('/')
            )
        };
        self.template(&full, place)
    }

    pub fn warn(&mut self, message: impl Into<String>, place: &Place) {
        self.warnings
            .push(ConfError::at(message, place).to_string());
    }

    /// Tell the administrator about something that is no problem.
    pub fn note(&mut self, message: impl Into<String>, place: &Place) {
        self.notices.push(ConfError::at(message, place).to_string());
    }

    /// Like [`Cidr::parse`], with a warning about low bits that have no meaning.
    pub fn network(&mut self, text: &str, place: &Place) -> Option<Cidr> {
        let net = Cidr::parse(text)?;
        if net.has_low_bits(text) {
            self.warn(format!("low address bits of {text} are meaningless"), place);
        }
        Some(net)
    }

    /// The group with that name, which may be declared later; `port` is that of an implicit group.
    pub fn intern_upstream(&mut self, name: &str, port: Option<u16>, place: &Place) -> usize {
        let in_stream = self.is_in_stream();
        let http = self.http();
        let key = match port {
            Some(p) => format!("{name}:{p}"),
            None => name.to_string(),
        };
        if let Some(&i) = http.upstream_index.get(&key) {
            return i;
        }
        let i = http.upstreams.len();
        http.upstreams.push(Upstream {
            name: name.to_string(),
            port,
            explicit: false,
            in_stream,
            peers: Vec::new(),
            resolving: Vec::new(),
            resolver: None,
            resolver_timeout: None,
            balance: Balance::RoundRobin,
            sticky: None,
            // Only upstream blocks keep connections open.
            keepalive: 0,
            keepalive_local: true,
            keepalive_requests: 1000,
            keepalive_timeout: 60_000,
            keepalive_time: 3_600_000,
            zone: None,
            checks: Vec::new(),
            place: Some(place.clone()),
        });
        http.upstream_index.insert(key, i);
        i
    }
}
