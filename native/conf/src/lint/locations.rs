//! Checks for locations that expose files, for unreachable blocks, and for `if`.

use super::scope::{listed, place, Scope};
use super::Remarks;
use crate::parser::Directive;
use hashbrown::HashMap;

pub fn check(scope: &Scope<'_>, out: &mut Remarks) {
    alias(scope, out);
    unreachable(scope, out);
    misused_if(scope, out);
    open_status(scope, out);
}

/// Checks of a whole server block.
pub fn server(scope: &Scope<'_>, out: &mut Remarks) {
    if scope.inherits(&["root"]) {
        return;
    }
    let inner: Vec<Scope<'_>> = scope.blocks(&["location"]).collect();
    let slash = inner.iter().find(|l| l.prefix() == Some("/"));
    let Some(root) = slash.and_then(|l| l.own("root").next()) else {
        return;
    };
    let homeless = inner.iter().filter(|l| {
        !l.has(&["root", "alias", "return", "rewrite", "internal"]) && !l.has(ANSWERED)
    });
    let names: Vec<&str> = homeless
        .filter_map(|l| l.location())
        .map(|(_, name)| name)
        .collect();
    if !names.is_empty() {
        out.add(root, format!(
            "\"root\" stands in location / only: {} take files from the default folder \"html\"; move it to \
             the server block",
            listed(names)
        ));
    }
}

/// Directives that respond without files.
const ANSWERED: &[&str] = &[
    "proxy_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "grpc_pass",
    "stub_status",
    "status",
    "empty_gif",
    "deny",
];

/// `location /i { alias /data/; }` serves /i../secret from beside the folder.
fn alias(scope: &Scope<'_>, out: &mut Remarks) {
    let Some(name) = scope.prefix().filter(|name| !name.ends_with('/')) else {
        return;
    };
    let own = scope.own("alias").next();
    let Some(alias) = own.filter(|d| d.args()[0].ends_with('/')) else {
        return;
    };
    let folder = &alias.args()[0];
    out.add(alias, format!(
        "location \"{name}\" has no slash at its end and its alias has: {name}../x is {folder}../x, so what \
         lies beside the folder can be fetched; use \"location {name}/\""
    ));
}

/// Regular expressions match in order: after one that matches everything, no other is used.
fn unreachable(scope: &Scope<'_>, out: &mut Remarks) {
    let mut seen: HashMap<(&str, &str), &Directive> = HashMap::new();
    let mut all: Option<&Directive> = None;
    for d in scope.own("location") {
        let inner = Scope {
            block: d,
            outer: None,
            facts: scope.facts,
        };
        let Some((modifier, pattern)) = inner.location().filter(|(m, _)| m.starts_with('~')) else {
            continue;
        };
        let before = all.or_else(|| seen.get(&(modifier, pattern)).copied());
        if let Some(before) = before {
            out.add(
                d,
                format!(
                    "location \"{pattern}\" is never reached: the one at {} matches first",
                    place(before)
                ),
            );
        }
        seen.entry((modifier, pattern)).or_insert(d);
        if matches!(
            pattern,
            "." | ".*" | "^" | "^/" | "/" | "^.*$" | "^/.*$" | "^/.*" | "^(.*)$"
        ) {
            all.get_or_insert(d);
        }
    }
}

/// Directives that are safe in an `if` of a location.
const HARMLESS: [&str; 4] = ["return", "rewrite", "break", "set"];

fn misused_if(scope: &Scope<'_>, out: &mut Remarks) {
    if !scope.is("location") {
        return;
    }
    for d in scope.own("if") {
        let inner = d.block.as_deref().unwrap_or(&[]);
        let unsafe_ones = inner
            .iter()
            .map(Directive::name)
            .filter(|n| !HARMLESS.contains(n));
        let named = listed(unsafe_ones);
        if !named.is_empty() {
            out.add(d, format!(
                "\"if\" in a location holds {named}: it is a location of its own that inherits little, and \
                 what stands beside it is not done; use only return, rewrite, break and set in it"
            ));
        }
    }
}

fn open_status(scope: &Scope<'_>, out: &mut Remarks) {
    let shown = scope
        .items()
        .iter()
        .find(|d| matches!(d.name(), "stub_status" | "status"));
    let Some(status) = shown else { return };
    let guarded = ["allow", "deny", "auth_basic", "auth_request", "internal"];
    if scope.inherits(&guarded) || !is_public(scope) {
        return;
    }
    out.add(
        status,
        format!(
            "\"{}\" is open to everyone; add \"allow\" and \"deny all\", or use \"status_socket\"",
            status.name()
        ),
    );
}

/// Whether the server block listens on an address that other hosts can reach.
fn is_public(scope: &Scope<'_>) -> bool {
    let Some(server) = scope.chain().find(|s| s.is("server")) else {
        return false;
    };
    let mut listens = server.own("listen").peekable();
    let local = |d: &Directive| {
        let at = d.args().first().map_or("", String::as_str);
        ["unix:", "127.", "localhost", "[::1]"]
            .iter()
            .any(|start| at.starts_with(start))
    };
    listens.peek().is_none() || listens.any(|d| !local(d))
}
