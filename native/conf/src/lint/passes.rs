//! Checks of proxy_pass and the directives that pass requests to applications.

use super::scope::Scope;
use super::Remarks;
use crate::parser::Directive;
use std::net::IpAddr;

/// The directives that pass requests on.
const PASSES: [&str; 6] = [
    "proxy_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "grpc_pass",
];

pub fn check(scope: &Scope<'_>, out: &mut Remarks) {
    for d in scope.items() {
        if !PASSES.contains(&d.name()) || d.args().is_empty() {
            continue;
        }
        let target = Target::new(&d.args()[0]);
        if target.is_visitors() {
            out.add(d, format!(
                "\"{}\" passes requests on to wherever the visitor says: other machines can be reached through \
                 this one",
                d.name()
            ));
        } else if target.host.contains('$')
            && !scope.inherits(&["resolver"])
            && !is_known(scope, &target)
        {
            out.add(d, format!(
                "\"{}\" has a variable in its host and there is no \"resolver\": only IP addresses and names of \
                 upstream groups will work",
                d.name()
            ));
        }
        joined(scope, d, &target, out);
        if d.name() == "fastcgi_pass" {
            php(scope, d, out);
        }
    }
}

/// The parts of a URL, as far as they are known.
struct Target<'a> {
    host: &'a str,
    path: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn new(url: &'a str) -> Target<'a> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        if rest.starts_with("unix:") {
            return Target {
                host: "",
                path: None,
            };
        }
        // These variables begin with a slash, so they end a host before them.
        let whole = ["$request_uri", "${request_uri}", "$uri", "${uri}"];
        let address = whole
            .iter()
            .filter_map(|name| rest.find(name))
            .find(|at| *at > 0);
        match rest.find('/').into_iter().chain(address).min() {
            Some(i) => Target {
                host: &rest[..i],
                path: Some(&rest[i..]),
            },
            None => Target {
                host: rest,
                path: None,
            },
        }
    }

    /// Whether the client determines the host or its end.
    fn is_visitors(&self) -> bool {
        let sent = ["http_", "arg_", "cookie_"];
        let whole = ["host", "args", "query_string"];
        let address = ["uri", "request_uri"];
        variables(self.host).any(|(at, name)| {
            let digit = name.starts_with(|c: char| c.is_ascii_digit());
            sent.iter().any(|start| name.starts_with(start))
                || digit
                || whole.contains(&name)
                || at == 0 && address.contains(&name)
        })
    }
}

/// The variables of a text: the position and name of each.
fn variables(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('$').map(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches('{');
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        (at, &rest[..end.unwrap_or(rest.len())])
    })
}

/// Whether a variable's value can only be a known address or group.
fn is_known(scope: &Scope<'_>, target: &Target<'_>) -> bool {
    let name = match target.host.split_once(':') {
        Some((name, _)) => name,
        None => target.host,
    };
    let Some(values) = scope.facts.values.get(name) else {
        return false;
    };
    values.iter().all(|value| {
        let host = Target::new(value).host;
        let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
        let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        scope.facts.groups.contains(host) || is_address(bare) || is_address(host)
    })
}

/// The location's name is replaced by the URL's path: a trailing slash in only one of them changes
/// the path.
fn joined(scope: &Scope<'_>, d: &Directive, target: &Target<'_>, out: &mut Remarks) {
    let (Some(name), Some(path)) = (scope.prefix(), target.path) else {
        return;
    };
    if d.name() == "proxy_pass"
        && name.ends_with('/')
        && !path.ends_with('/')
        && !path.contains(['$', '?'])
    {
        out.add(d, format!(
            "location \"{name}\" ends in a slash and the URL of \"proxy_pass\" does not: {name}x is passed on as \
             {path}x"
        ));
    }
}

/// PHP may run a file that is only a part of the named path.
fn php(scope: &Scope<'_>, d: &Directive, out: &mut Remarks) {
    let is_php = scope
        .regex()
        .is_some_and(|r| r.contains("php") && !r.starts_with('^'));
    let tests = |d: &Directive| d.args().iter().any(|word| word.contains("-f"));
    if !is_php || scope.has(&["try_files"]) || scope.own("if").any(tests) {
        return;
    }
    out.add(d, "PHP is asked for every path that the expression matches, whether there is such a file or not: \
                an upload named x.jpg/y.php may be run; add \"try_files $fastcgi_script_name =404\" or \
                \"try_files $uri =404\"");
}
