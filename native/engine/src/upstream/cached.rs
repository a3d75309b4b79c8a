//! Cache decisions: which cached response a request gets, whether to fetch one, and whether to
//! store it.

use super::answer::Head;
use super::response_body::UpstreamBody;
use super::saved::{self, Temporary};
use crate::body::Body;
use crate::cache::control::{valid_for, Verdict};
use crate::cache::disk::{self, Entry, Meta};
use crate::cache::{vary, Cache, Key, Seen, Updating};
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::phases::{content, end};
use crate::{subrequest, template};
use gallop_conf::model::{cache_methods, items, next, CacheUse, Level, UpConf};
use gallop_conf::template::Template;
use gallop_runtime::{now_ms, timeout, Notify};
use md5::{Digest, Md5};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

/// The cache information of a request.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// `$upstream_cache_status`.
    pub status: &'static str,
    /// The position of the cache in the configuration.
    pub zone: Option<usize>,
    /// `$upstream_cache_key`.
    pub key: Vec<u8>,
    /// Whether the response may be stored because the upstream request carries no conditions of the
    /// client.
    pub cacheable: bool,
    /// Conditions added to revalidate a stale response.
    pub last_modified: Option<i64>,
    pub etag: Vec<u8>,
    /// Set while the response is being stored; `true` aborts the storing.
    pub abandoned: Option<Rc<Cell<bool>>>,
    /// Fields of a cached response, for `$upstream_http_*`.
    pub fields: Option<super::Fields>,
}

pub enum Looked {
    /// A cached response.
    Answer(Box<Entry>),
    Flow(Flow),
    Fetch(Box<Fetch>),
}

/// A response to fetch and the cache entry for it.
pub struct Fetch {
    cache: Arc<Cache>,
    main: Key,
    key: Key,
    text: Vec<u8>,
    pub cacheable: bool,
    updating: Option<Updating>,
    /// The stale response.
    old: Option<Box<Entry>>,
    /// Whether the stale response itself allows its use after an error.
    old_on_error: bool,
    bypassed: bool,
}

fn seconds() -> i64 {
    (gallop_runtime::unix_time() / 1000) as i64
}

/// Whether any of the values is non-empty and not "0".
pub fn any(ex: &Exchange, values: &[Template]) -> bool {
    values.iter().any(|t| {
        let value = template::eval(ex, t);
        !value.is_empty() && value != b"0"
    })
}

/// The location's cache; an error if it names an unknown one.
fn chosen(ex: &Exchange, conf: &UpConf) -> Result<Option<Arc<Cache>>, String> {
    let caches = &ex.worker.shared.caches;
    let name = match &conf.cache {
        None | Some(CacheUse::Off) => return Ok(None),
        Some(CacheUse::Zone(name)) => name.clone().into_bytes(),
        Some(CacheUse::Variable(t)) => template::eval(ex, t),
    };
    if name.is_empty() || name == b"off" {
        return Ok(None);
    }
    match caches.get(&name) {
        Some(cache) => Ok(Some(cache.clone())),
        None => Err(format!(
            "cache \"{}\" not found",
            String::from_utf8_lossy(&name)
        )),
    }
}

/// Look for a cached response; `None` if the location has no cache. `default_key` applies without a
/// configured key.
pub async fn look(ex: &mut Exchange, conf: &UpConf, default_key: Vec<u8>) -> Option<Looked> {
    let methods = conf
        .cache_methods
        .unwrap_or(cache_methods::GET | cache_methods::HEAD);
    if methods & cache_methods::of(ex.method()) == 0 {
        return None;
    }
    let cache = match chosen(ex, conf) {
        Ok(cache) => cache?,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Some(Looked::Flow(Flow::Status(500)));
        }
    };
    let text = match &conf.cache_key {
        Some(key) => template::eval(ex, key),
        None => default_key,
    };
    let key: Key = Md5::digest(&text).into();
    ex.cached = Some(Note {
        zone: Some(cache.index),
        key: text.clone(),
        status: "MISS",
        ..Note::default()
    });
    let mut fetch = Box::new(Fetch {
        cache,
        main: key,
        key,
        text,
        cacheable: true,
        updating: None,
        old: None,
        old_on_error: false,
        bypassed: false,
    });
    if any(ex, items(&conf.cache_purge)) {
        return Some(Looked::Flow(fetch.purge(ex)));
    }
    if any(ex, items(&conf.cache_bypass)) {
        fetch.bypassed = true;
        note(ex).status = "BYPASS";
        note(ex).cacheable = true;
        return Some(Looked::Fetch(fetch));
    }
    Some(fetch.find(ex, conf).await)
}

/// Give up storing the response, since the client's request cannot be served from it, as in nginx.
pub(crate) fn abandon(ex: &mut Exchange) {
    if let Some(abandoned) = ex.cached.as_mut().and_then(|note| note.abandoned.take()) {
        abandoned.set(true);
    }
}

fn note(ex: &mut Exchange) -> &mut Note {
    ex.cached.get_or_insert_default()
}

/// The result of opening a key's file.
enum Opened {
    Fresh(Box<Entry>),
    Old(Box<Entry>),
    Missing { scarce: bool },
    Error(u16),
}

/// The bit of `use_stale` for a response under update.
const UPDATING: u32 = next::UPDATING;

impl Fetch {
    async fn find(mut self: Box<Self>, ex: &mut Exchange, conf: &UpConf) -> Looked {
        let mut until = None;
        let mut counted = None;
        loop {
            match self.open(ex, conf, &mut counted) {
                Opened::Error(status) => {
                    note(ex).status = "HIT";
                    return Looked::Flow(Flow::Status(status));
                }
                Opened::Fresh(entry) => return answer(ex, "HIT", entry),
                Opened::Old(entry) => return self.old(ex, conf, entry),
                Opened::Missing { scarce: true } => {
                    self.cacheable = false;
                    return self.fetch(ex, conf);
                }
                Opened::Missing { scarce: false } if conf.cache_lock != Some(true) => {
                    return self.fetch(ex, conf);
                }
                Opened::Missing { scarce: false } => {
                    let age = conf.cache_lock_age.unwrap_or(5000);
                    self.updating = self.cache.claim(&self.key, age, true);
                    let wait = conf.cache_lock_timeout.unwrap_or(5000);
                    let until = *until.get_or_insert_with(|| now_ms().saturating_add(wait));
                    if self.updating.is_some() {
                        return self.fetch(ex, conf);
                    }
                    if !self.wait(until).await {
                        self.cacheable = false;
                        return self.fetch(ex, conf);
                    }
                }
            }
        }
    }

    /// Wait for the request that fetches the response; `false` after the time `until`.
    async fn wait(&self, until: u64) -> bool {
        let left = until.saturating_sub(now_ms());
        if left == 0 {
            return false;
        }
        let patience = self.cache.patience(&self.key).max(1).min(left);
        let free = poll_fn(|cx| self.cache.poll_free(&self.key, cx));
        // Both results lead to another lookup.
        let _ = timeout(patience, free).await;
        true
    }

    /// Open the entry of the key, or of the variant that the request selects.
    fn open(&mut self, ex: &Exchange, conf: &UpConf, counted: &mut Option<Key>) -> Opened {
        let min_uses = conf.cache_min_uses.unwrap_or(1);
        self.key = self.main;
        for variant in [false, true] {
            let now = seconds();
            let again = *counted == Some(self.key);
            let seen = self.cache.see(&self.key, min_uses, now, !again);
            *counted = Some(self.key);
            let read = match seen {
                Seen::Error(status) => return Opened::Error(status),
                Seen::Scarce => return Opened::Missing { scarce: true },
                Seen::Known => true,
                Seen::New => self.cache.is_cold(),
            };
            let entry = read.then(|| self.cache.open(&self.key, &self.text));
            let Some(entry) = entry.flatten() else {
                let scarce = matches!(seen, Seen::New) && min_uses > 1;
                return Opened::Missing { scarce };
            };
            self.cache.found(&self.key, entry.size);
            if !entry.meta.vary.is_empty() {
                let wanted = vary::variant(&self.main, &entry.meta.vary, &ex.head);
                if wanted != entry.meta.variant {
                    if variant {
                        break;
                    }
                    self.key = wanted;
                    continue;
                }
            }
            let entry = Box::new(entry);
            return if entry.meta.valid < now {
                Opened::Old(entry)
            } else {
                Opened::Fresh(entry)
            };
        }
        Opened::Missing { scarce: false }
    }

    /// Decide about a stale response: use it, or fetch a new one.
    fn old(mut self: Box<Self>, ex: &mut Exchange, conf: &UpConf, entry: Box<Entry>) -> Looked {
        let now = seconds();
        let meta = &entry.meta;
        let use_stale = conf.cache_use_stale.unwrap_or(0);
        let may_wait = use_stale & UPDATING != 0 || meta.valid + meta.while_updating >= now;
        self.old_on_error = meta.valid + meta.on_error >= now;
        let background = ex.updating.take();
        let inside = background.is_some();
        let age = conf.cache_lock_age.unwrap_or(5000);
        let claimed = background.or_else(|| self.cache.claim(&self.key, age, false));
        match claimed {
            None if may_wait => return answer(ex, "UPDATING", entry),
            Some(claim) if may_wait && !inside && conf.cache_background_update == Some(true) => {
                update_in_background(ex, claim);
                return answer(ex, "STALE", entry);
            }
            claimed => self.updating = claimed,
        }
        if conf.cache_revalidate == Some(true) {
            note(ex).last_modified = meta.last_modified;
            note(ex).etag.clone_from(&meta.etag);
        }
        self.old = Some(entry);
        note(ex).status = "EXPIRED";
        self.fetch(ex, conf)
    }

    fn fetch(mut self: Box<Self>, ex: &mut Exchange, conf: &UpConf) -> Looked {
        if conf
            .cache_max_range_offset
            .is_some_and(|max| begins_beyond(ex, max))
        {
            self.cacheable = false;
        }
        note(ex).cacheable = self.cacheable;
        Looked::Fetch(self)
    }

    /// Purge the entry of the key; a key that ends in an asterisk purges all keys with this prefix.
    fn purge(&self, ex: &mut Exchange) -> Flow {
        let gone = match self.text.strip_suffix(b"*") {
            Some(prefix) => {
                self.cache.purge_prefix(prefix, seconds());
                true
            }
            None => self.cache.remove(&self.main),
        };
        if !gone {
            return Flow::Status(404);
        }
        ex.response.status = 204;
        Flow::Done
    }

    /// The stale response, if it may replace an error response.
    pub fn instead(&mut self, ex: &mut Exchange, conf: &UpConf, kind: u32) -> Option<Box<Entry>> {
        let may = conf.cache_use_stale.unwrap_or(0) & kind != 0;
        let entry = self.old.take_if(|_| may)?;
        note(ex).status = "STALE";
        Some(entry)
    }

    /// Like [`instead`](Self::instead), if no server responded at all.
    pub fn after_failure(
        &mut self,
        ex: &mut Exchange,
        conf: &UpConf,
        kind: u32,
    ) -> Option<Box<Entry>> {
        if !self.old_on_error {
            return self.instead(ex, conf, kind);
        }
        let entry = self.old.take()?;
        note(ex).status = "STALE";
        Some(entry)
    }

    /// Cache a status that has no response of its own.
    pub fn failed(&self, conf: &UpConf, status: u16, valid: i64) {
        let now = seconds();
        let until = match (valid, valid_for(conf, status)) {
            (0, 0) => return,
            (0, span) => now.saturating_add(span),
            (valid, _) => valid,
        };
        if self.cacheable {
            self.cache.failed(&self.key, status, until);
        }
    }

    /// Cache the status of a response that an error page replaces.
    pub fn intercepted(&self, conf: &UpConf, head: &Head) {
        let verdict = Verdict::of(conf, head, seconds());
        if !verdict.refused {
            self.failed(conf, head.status, verdict.valid);
        }
    }

    /// Handle a 304 response: the stale response is still valid.
    pub fn confirmed(
        &mut self,
        ex: &mut Exchange,
        conf: &UpConf,
        head: &Head,
    ) -> Option<Box<Entry>> {
        if head.status != 304 || conf.cache_revalidate != Some(true) {
            return None;
        }
        let mut entry = self.old.take()?;
        note(ex).status = "REVALIDATED";
        let now = seconds();
        let mut verdict = Verdict::of(conf, head, now);
        if verdict.valid == 0 {
            verdict = Verdict::of(conf, &entry.meta.head, now);
        }
        let valid = match (verdict.valid, valid_for(conf, entry.meta.head.status)) {
            (0, 0) => return Some(entry),
            (0, span) => now.saturating_add(span),
            (valid, _) => valid,
        };
        let meta = &mut entry.meta;
        meta.valid = valid;
        meta.while_updating = verdict.while_updating;
        meta.on_error = verdict.on_error;
        meta.date = now;
        if let Err(e) = disk::update_times(&self.cache.path(&self.key), meta) {
            ex.log(Level::Crit, &format!("cannot update a cache file ({e})"));
        }
        Some(entry)
    }

    /// Whether the response's own fields allow storing it.
    pub fn allows(&self, conf: &UpConf, head: &Head) -> bool {
        self.cacheable && !Verdict::of(conf, head, seconds()).refused
    }

    /// Store the response while it is sent; return the body unchanged if it is not stored.
    pub fn keep(
        mut self,
        ex: &mut Exchange,
        conf: &UpConf,
        head: &Head,
        body: UpstreamBody,
    ) -> Result<Body, Box<UpstreamBody>> {
        if !self.cacheable || any(ex, items(&conf.no_cache)) {
            return Err(Box::new(body));
        }
        let Some(meta) = self.meta(ex, conf, head) else {
            return Err(Box::new(body));
        };
        if self.bypassed {
            let min_uses = conf.cache_min_uses.unwrap_or(1);
            self.cache.see(&self.key, min_uses, seconds(), true);
        }
        let path = self.cache.path(&self.key);
        let bytes = disk::encode(&meta);
        let temp = path
            .parent()
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
            .and_then(|folder| Temporary::new(folder, 0o600))
            .and_then(|temp| disk::write_head(&temp.file, &bytes).map(|()| temp));
        let temp = match temp {
            Ok(temp) => temp,
            Err(e) => {
                let words = gallop_conf::parser::os_error(&e);
                let shown = path.display();
                ex.log(
                    Level::Crit,
                    &format!("cannot write the cache file \"{shown}\" ({words})"),
                );
                return Err(Box::new(body));
            }
        };
        let (cache, key, updating) = (self.cache.clone(), self.key, self.updating.take());
        let abandoned = Rc::new(Cell::new(false));
        note(ex).abandoned = Some(abandoned.clone());
        let worker = ex.worker.clone();
        let finish = move |temp: Temporary, size| {
            match temp.place(&path) {
                Ok(()) => cache.stored(&key, size),
                Err(e) => worker.log(
                    Level::Crit,
                    &format!("rename() to \"{}\" failed ({e})", path.display()),
                ),
            }
            // Wake the requests that wait for the response.
            drop(updating);
        };
        let start = bytes.len() as u64;
        Ok(saved::save(body, temp, start, abandoned, Box::new(finish)))
    }

    /// The metadata to store; `None` if the response must not be stored. Computes a new key if the
    /// response varies by other fields than before.
    fn meta(&mut self, ex: &Exchange, conf: &UpConf, head: &Head) -> Option<Meta> {
        let now = seconds();
        let verdict = Verdict::of(conf, head, now);
        let valid = match (verdict.valid, valid_for(conf, head.status)) {
            _ if verdict.refused => return None,
            (0, 0) => return None,
            (0, span) => now.saturating_add(span),
            (valid, _) => valid,
        };
        let variant = if verdict.vary.is_empty() {
            Key::default()
        } else {
            vary::variant(&self.main, &verdict.vary, &ex.head)
        };
        if self.key != self.main && variant != self.key {
            self.key = self.main;
        }
        let whole = matches!(head.status, 200 | 206);
        let modified = head.get("last-modified").filter(|_| whole);
        Some(Meta {
            valid,
            while_updating: verdict.while_updating,
            on_error: verdict.on_error,
            date: now,
            last_modified: modified.and_then(crate::time::parse_http_date),
            etag: head
                .get("etag")
                .filter(|_| whole)
                .unwrap_or_default()
                .to_vec(),
            vary: verdict.vary,
            variant,
            key: self.text.clone(),
            head: head.clone(),
        })
    }
}

fn answer(ex: &mut Exchange, status: &'static str, entry: Box<Entry>) -> Looked {
    note(ex).status = status;
    Looked::Answer(entry)
}

/// Whether the first requested range starts behind `max` or counts from the end. With 0, every
/// `Range` does; a malformed one does not, as in nginx (ngx_http_upstream_cache_check_range).
fn begins_beyond(ex: &Exchange, max: u64) -> bool {
    let Some(range) = ex.head.get("range") else {
        return false;
    };
    if max == 0 {
        return true;
    }
    let Some((unit, spec)) = range.split_at_checked(6) else {
        return false;
    };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return false;
    }
    let blanks = spec.iter().take_while(|&&c| c == b' ').count();
    let spec = &spec[blanks..];
    if spec.first() == Some(&b'-') {
        return true;
    }
    let digits = spec.iter().take_while(|c| c.is_ascii_digit()).count();
    let start = std::str::from_utf8(&spec[..digits]).unwrap_or_default();
    start.parse().is_ok_and(|start: i64| start as u64 >= max)
}

/// Fetch the response for later requests in the background.
fn update_in_background(ex: &mut Exchange, claim: Updating) {
    let done = Rc::new(Notify::default());
    ex.background.push(done.clone());
    let mut sub = subrequest::same(ex);
    sub.header_only = true;
    sub.updating = Some(claim);
    gallop_runtime::spawn(async move {
        if matches!(content::serve(&mut sub).await, Flow::Done) {
            while let Some(Ok(_)) = sub.response.body.next().await {}
        }
        end::finish(&mut sub);
        done.set();
    });
}
