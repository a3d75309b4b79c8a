//! Choosing a server block by name, in nginx's order: exact, longest leading wildcard, longest
//! trailing wildcard, first matching regular expression, default server.

use crate::error::{ConfError, Place, Result};
use crate::model::Server;
use crate::pattern::{Groups, Pattern};
use crate::vars::VarTable;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// A parameter of `server_name`.
#[derive(Clone, Debug)]
pub enum ServerName {
    Exact(Box<str>),
    /// `*.example.com` matches all subdomains; `and_itself` for `.example.com`.
    Below {
        suffix: Box<str>,
        and_itself: bool,
    },
    /// `www.example.*`
    Trailing(Box<str>),
    Regex(Pattern),
}

impl ServerName {
    pub fn parse(word: &str, vars: &mut VarTable, place: &Place) -> Result<ServerName> {
        let invalid =
            || ConfError::at(format!("invalid server name or wildcard \"{word}\""), place);
        if let Some(source) = word.strip_prefix('~') {
            if source.is_empty() {
                return Err(ConfError::at("empty regex in server name \"~\"", place));
            }
            let caseless = source.bytes().any(|b| b.is_ascii_uppercase());
            return Ok(ServerName::Regex(Pattern::compile(
                source, caseless, vars, place,
            )?));
        }
        let lower = word.to_ascii_lowercase();
        let checked = |name: &str| -> Result<Box<str>> {
            let bad = name.is_empty() || name.contains('*') || name.contains("..");
            if bad {
                Err(invalid())
            } else {
                Ok(name.into())
            }
        };
        if let Some(suffix) = lower.strip_prefix("*.") {
            return Ok(ServerName::Below {
                suffix: checked(suffix)?,
                and_itself: false,
            });
        }
        if let Some(suffix) = lower.strip_prefix('.') {
            return Ok(ServerName::Below {
                suffix: checked(suffix)?,
                and_itself: true,
            });
        }
        if let Some(stem) = lower.strip_suffix(".*") {
            return Ok(ServerName::Trailing(checked(stem)?));
        }
        if lower.is_empty() {
            return Ok(ServerName::Exact("".into()));
        }
        Ok(ServerName::Exact(checked(&lower)?))
    }
}

impl std::fmt::Display for ServerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerName::Exact(name) => f.write_str(name),
            ServerName::Below { suffix, and_itself } => {
                let start = if *and_itself { "." } else { "*." };
                write!(f, "{start}{suffix}")
            }
            ServerName::Trailing(stem) => write!(f, "{stem}.*"),
            ServerName::Regex(pattern) => write!(f, "~{}", pattern.source()),
        }
    }
}

/// A table from names to values. Wildcard names are found by their fixed part; regular expressions
/// are not in the table.
#[derive(Clone, Debug)]
pub struct NameTable<T> {
    exact: HashMap<Box<str>, T>,
    /// Names of a `.example.com` that another wildcard name blocked. As in nginx, no other entry
    /// can have them.
    blocked: HashSet<Box<str>>,
    below: HashMap<Box<str>, T>,
    trailing: HashMap<Box<str>, T>,
}

/// The rank of a match, where greater is better: its kind, and the length of its fixed part.
pub type Closeness = (u8, usize);

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        NameTable {
            exact: HashMap::new(),
            blocked: HashSet::new(),
            below: HashMap::new(),
            trailing: HashMap::new(),
        }
    }
}

impl<T: Clone> NameTable<T> {
    /// Add a name. Returns `false` and adds nothing if an entry already has the name or a part of
    /// it, as in nginx.
    pub fn add(&mut self, name: &ServerName, value: &T) -> bool {
        if self.holds(name) {
            if let ServerName::Below {
                suffix,
                and_itself: true,
            } = name
            {
                self.blocked.insert(suffix.clone());
            }
            return false;
        }
        let insert = |map: &mut HashMap<Box<str>, T>, key: &str| {
            map.insert(key.into(), value.clone());
        };
        match name {
            ServerName::Exact(n) => insert(&mut self.exact, n),
            ServerName::Below { suffix, and_itself } => {
                insert(&mut self.below, suffix);
                if *and_itself {
                    insert(&mut self.exact, suffix);
                }
            }
            ServerName::Trailing(stem) => insert(&mut self.trailing, stem),
            ServerName::Regex(_) => {}
        }
        true
    }

    /// Whether `add` would reject the name.
    pub fn holds(&self, name: &ServerName) -> bool {
        let taken = |name: &str| self.exact.contains_key(name) || self.blocked.contains(name);
        match name {
            ServerName::Exact(n) => taken(n),
            ServerName::Below { suffix, and_itself } => {
                self.below.contains_key(suffix) || *and_itself && taken(suffix)
            }
            ServerName::Trailing(stem) => self.trailing.contains_key(stem),
            ServerName::Regex(_) => false,
        }
    }

    /// The best entry: exact name, then the longest leading wildcard, then the longest trailing
    /// one. `host` is in lower case.
    pub fn find(&self, host: &str) -> Option<(Closeness, &T)> {
        if let Some(value) = self.exact.get(host) {
            return Some(((2, host.len()), value));
        }
        if !self.below.is_empty() {
            let mut suffixes = host.match_indices('.').map(|(i, _)| &host[i + 1..]);
            let found = suffixes.find_map(|s| Some(((1, s.len()), self.below.get(s)?)));
            if found.is_some() {
                return found;
            }
        }
        if self.trailing.is_empty() {
            return None;
        }
        let mut stems = host.rmatch_indices('.').map(|(i, _)| &host[..i]);
        stems.find_map(|s| Some(((0, s.len()), self.trailing.get(s)?)))
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty() && self.trailing.is_empty()
    }

    fn values(&self) -> impl Iterator<Item = &T> {
        let wild = self.below.values().chain(self.trailing.values());
        self.exact.values().chain(wild)
    }
}

/// The server blocks of an address.
#[derive(Clone, Debug)]
pub struct VirtualHosts {
    pub default: Arc<Server>,
    names: NameTable<Arc<Server>>,
    regexes: Vec<(Pattern, Arc<Server>)>,
}

/// The chosen server block, and the groups of the regular expression that matched.
pub struct Chosen<'a> {
    pub server: &'a Arc<Server>,
    pub matched: Option<(&'a Pattern, Groups)>,
    /// Whether the name matched, rather than the address's default.
    pub named: bool,
}

impl VirtualHosts {
    pub fn new(default: Arc<Server>) -> Self {
        VirtualHosts {
            default,
            names: NameTable::default(),
            regexes: Vec::new(),
        }
    }

    /// Add a name; `false` if another server block of the address already has it.
    pub fn add(&mut self, name: &ServerName, server: &Arc<Server>) -> bool {
        if let ServerName::Regex(p) = name {
            self.regexes.push((p.clone(), server.clone()));
        }
        self.names.add(name, server)
    }

    /// Choose by host name in lower case, without port and final dot.
    pub fn choose(&self, host: &str) -> Chosen<'_> {
        let plain = |server| Chosen {
            server,
            matched: None,
            named: true,
        };
        if let Some((_, server)) = self.names.find(host) {
            return plain(server);
        }
        for (pattern, server) in &self.regexes {
            if host.is_empty() {
                break;
            }
            if pattern.named().is_empty() && !pattern.has_groups() {
                if pattern.is_match(host.as_bytes()) {
                    return plain(server);
                }
            } else if let Some(groups) = pattern.captures(host.as_bytes()) {
                return Chosen {
                    server,
                    matched: Some((pattern, groups)),
                    named: true,
                };
            }
        }
        Chosen {
            named: false,
            ..plain(&self.default)
        }
    }

    /// All server blocks without duplicates.
    pub fn servers(&self) -> Vec<&Arc<Server>> {
        let mut all: Vec<&Arc<Server>> = vec![&self.default];
        all.extend(self.names.values());
        all.extend(self.regexes.iter().map(|(_, s)| s));
        all.sort_by_key(|s| Arc::as_ptr(s));
        all.dedup_by_key(|s| Arc::as_ptr(s));
        all
    }
}
