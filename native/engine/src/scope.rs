//! The values that templates, maps, and log lines are evaluated with: those of an HTTP request, or
//! of a session of `stream`.

use crate::exchange::Value;
use crate::worker::Worker;
use gallop_conf::model::{Level, LocConf};
use gallop_conf::pattern::{Groups, Pattern};
use gallop_conf::vars::{Builtin, Prefix, VarTable};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

pub trait Scope {
    fn worker(&self) -> &Worker;
    /// The settings of the location, or of the server block.
    fn settings(&self) -> &LocConf;
    /// The variables of the configuration.
    fn table(&self) -> &VarTable;
    /// The known values, by variable.
    fn values(&self) -> &RefCell<Vec<Option<Value>>>;
    /// The subject and the groups of the last match.
    fn captures(&self) -> &RefCell<(Vec<u8>, Groups)>;
    /// Append a built-in variable's value; `false` if it has none.
    fn builtin(&self, variable: Builtin, out: &mut Vec<u8>) -> bool;
    /// Append the value of a variable whose name contains an argument; `false` if it has none.
    fn prefixed(&self, prefix: Prefix, name: &str, out: &mut Vec<u8>) -> bool;
    /// The client's address; `None` on Unix sockets.
    fn client(&self) -> Option<IpAddr>;
    /// The values of `X-Forwarded-For`.
    fn forwarded_for(&self) -> Vec<&[u8]>;
    /// Write to the error log, with a description of the client.
    fn log(&self, level: Level, message: &str);
}

/// Store the groups of a match for `$1` and named groups.
pub fn set_captures<S: Scope + ?Sized>(
    scope: &S,
    subject: &[u8],
    groups: Groups,
    pattern: &Pattern,
) {
    for (group, var) in pattern.named() {
        let found = groups.get(*group).copied().flatten();
        let value = found.map(|(a, z)| Rc::from(&subject[a..z]));
        scope.values().borrow_mut()[var.0 as usize] = Some(value);
    }
    let kept = match pattern.has_groups() {
        true => groups,
        false => vec![groups.first().copied().flatten()],
    };
    *scope.captures().borrow_mut() = (subject.to_vec(), kept);
}
