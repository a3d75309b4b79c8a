//! `sticky`: sends the requests of a client to one server of a group.

use super::chosen::Chosen;
use super::methods::Hint;
use super::sessions::Key;
use super::state::Group;
use crate::exchange::Exchange;
use crate::template;
use crate::time::cookie_date;
use crate::vars;
use crate::worker::Shared;
use gallop_conf::model::{Sticky, StickyCookie, StickyExpires, StickyLearn, SAME_SITE};
use gallop_conf::vars::VarId;
use std::sync::Arc;

/// Complete a hint with the server that the client is bound to.
pub fn find(ex: &Exchange, group: &Group, hint: &mut Hint) {
    let Some(sticky) = &group.conf.sticky else {
        return;
    };
    match sticky {
        Sticky::Cookie(cookie) => hint.server = first(ex, &[cookie.lookup]),
        Sticky::Route(variables) => hint.server = first(ex, variables),
        Sticky::Learn(rule) => {
            let session = first(ex, &rule.lookup);
            hint.session = session.map(|session| Key::of(&session));
            let sessions = &ex.worker.shared.history.current.sessions;
            hint.server = hint
                .session
                .and_then(|key| sessions.server(&group.conf, rule, key));
        }
    }
}

/// The first value that is not empty.
fn first(ex: &Exchange, variables: &[VarId]) -> Option<Vec<u8>> {
    let mut values = variables.iter().map(|id| vars::value(ex, *id));
    values.find(|value| !value.is_empty())
}

/// Bind the client to the chosen server by a cookie.
pub fn bind(ex: &mut Exchange, chosen: &Chosen) {
    let cookie = match &chosen.group.conf.sticky {
        Some(Sticky::Cookie(rule)) => cookie(ex, rule, chosen.sid()),
        _ => return,
    };
    ex.sticky_cookie = Some(cookie);
}

/// The latest date that every client can read.
const MAX: &[u8] = b"; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000";

fn cookie(ex: &Exchange, rule: &StickyCookie, sid: &str) -> Vec<u8> {
    let mut out = format!("{}={sid}", rule.name).into_bytes();
    match rule.expires {
        None => {}
        Some(StickyExpires::Max) => out.extend_from_slice(MAX),
        Some(StickyExpires::After(seconds)) => {
            let now = (gallop_runtime::unix_time() / 1000) as i64;
            let date = cookie_date(now.saturating_add_unsigned(seconds.min(1 << 40)));
            out.extend_from_slice(format!("; expires={date}; max-age={seconds}").as_bytes());
        }
    }
    let mut attribute = |name: &str, value: &[u8]| {
        if !value.is_empty() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
        }
    };
    if let Some(domain) = &rule.domain {
        attribute("; domain=", &template::eval(ex, domain));
    }
    if rule.httponly {
        attribute("; ", b"httponly");
    }
    if rule.secure {
        attribute("; ", b"secure");
    }
    if let Some(samesite) = &rule.samesite {
        let value = template::eval(ex, samesite);
        let mut known = SAME_SITE.iter().map(|s| s.as_bytes());
        let is_valid = value.is_empty() || known.any(|s| s.eq_ignore_ascii_case(&value));
        let value: &[u8] = if is_valid { &value } else { b"strict" };
        attribute("; samesite=", value);
    }
    if let Some(path) = &rule.path {
        attribute("; path=", path.as_bytes());
    }
    out
}

/// A session that is stored when this value is dropped, at the end of the response.
pub struct Learned {
    shared: Arc<Shared>,
    group: Arc<Group>,
    rule: Arc<StickyLearn>,
    key: Key,
    server: usize,
    creates: bool,
}

/// The session of a response whose head has come, for a group with `sticky learn`.
pub fn learn(ex: &Exchange, hint: &Hint, chosen: &Chosen) -> Option<Learned> {
    let Some(Sticky::Learn(rule)) = &chosen.group.conf.sticky else {
        return None;
    };
    let created = first(ex, &rule.create).map(|session| Key::of(&session));
    let learned = Learned {
        shared: ex.worker.shared.clone(),
        group: chosen.group.clone(),
        rule: rule.clone(),
        key: created.or(hint.session)?,
        server: chosen.index,
        creates: created.is_some(),
    };
    // With `header`, the session is stored now.
    (!rule.at_header).then_some(learned)
}

impl Drop for Learned {
    fn drop(&mut self) {
        let sessions = &self.shared.history.current.sessions;
        let server = self.group.sid(self.server).as_bytes();
        sessions.store(&self.group.conf, &self.rule, self.key, server, self.creates);
    }
}
