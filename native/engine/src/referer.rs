//! `$invalid_referer`.

use crate::exchange::Exchange;
use gallop_conf::model::Referers;
use gallop_conf::names::ServerName;

/// Longer host names are no host names.
const MAX_HOST: usize = 256;

/// Whether the request's `Referer` is one that `valid_referers` does not list.
pub fn is_invalid(ex: &Exchange) -> bool {
    let Some(rules) = &ex.loc.conf.valid_referers else {
        return false;
    };
    let own = ex.server.names.as_slice();
    let names = if rules.server_names { own } else { &[] };
    if rules.names.is_empty() && rules.patterns.is_empty() && names.is_empty() {
        return false;
    }
    match ex.head.get("referer") {
        None => !rules.none,
        Some(field) => !is_valid(rules, names, field),
    }
}

fn is_valid(rules: &Referers, own: &[ServerName], field: &[u8]) -> bool {
    let Some(rest) = after_scheme(field) else {
        return rules.blocked;
    };
    let end = rest.iter().position(|c| b"/:".contains(c));
    let end = end.unwrap_or(rest.len());
    if end > MAX_HOST {
        return false;
    }
    let host = rest[..end].to_ascii_lowercase();
    let path = rest[end..].iter().position(|&c| c == b'/');
    let path = path.map_or(&b""[..], |i| &rest[end + i..]);
    if let Some(start) = listed(rules, own, &host) {
        return start.is_none_or(|start| path.starts_with(start.as_bytes()));
    }
    let by_pattern = own.iter().any(|n| match n {
        ServerName::Regex(p) => p.is_match(&host),
        _ => false,
    });
    by_pattern || rules.patterns.iter().any(|p| p.is_match(rest))
}

fn after_scheme(field: &[u8]) -> Option<&[u8]> {
    const SHORTEST: usize = "http://i.ru".len();
    if field.len() < SHORTEST {
        return None;
    }
    ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = field.split_at_checked(scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme.as_bytes())
            .then_some(rest)
    })
}

/// How closely a name matches a host: nothing at all, else the greater the better.
fn rank(name: &ServerName, host: &[u8]) -> Option<(u8, usize)> {
    match name {
        ServerName::Exact(n) => (n.as_bytes() == host && !host.is_empty()).then_some((2, 0)),
        ServerName::Below { suffix, and_itself } => {
            let rest = host.strip_suffix(suffix.as_bytes())?;
            if rest.is_empty() {
                return and_itself.then_some((2, 0));
            }
            (rest.ends_with(b".") && rest.len() > 1).then_some((1, suffix.len()))
        }
        ServerName::Trailing(stem) => {
            let rest = host.strip_prefix(stem.as_bytes())?;
            (rest.starts_with(b".") && rest.len() > 1).then_some((0, stem.len()))
        }
        ServerName::Regex(_) => None,
    }
}

/// The best name for a host, with the start of the path it asks for.
fn listed<'a>(rules: &'a Referers, own: &[ServerName], host: &[u8]) -> Option<Option<&'a str>> {
    let declared = rules.names.iter().map(|(n, path)| (n, path.as_deref()));
    let own = own.iter().map(|n| (n, None));
    let ranked = declared
        .chain(own)
        .filter_map(|(n, path)| Some((rank(n, host)?, path)));
    ranked
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_conf::vars::VarTable;
    use gallop_conf::Place;

    fn rules(names: &[(&str, Option<&str>)]) -> Referers {
        let place = Place {
            file: "t".into(),
            line: 1,
        };
        let mut vars = VarTable::default();
        let mut parse = |name: &str| ServerName::parse(name, &mut vars, &place).expect("a name");
        Referers {
            names: names
                .iter()
                .map(|(n, p)| (parse(n), p.map(str::to_string)))
                .collect(),
            ..Referers::default()
        }
    }

    #[test]
    fn hosts_are_found_by_the_closest_name_and_then_by_path() {
        let rules = rules(&[
            ("*.example.org", None),
            ("www.example.org", Some("/uri")),
            ("site.*", None),
        ]);
        let valid = |field: &str| is_valid(&rules, &[], field.as_bytes());
        assert!(valid("http://a.example.org/"));
        assert!(valid("HTTPS://A.EXAMPLE.ORG:8080/x"));
        assert!(valid("http://www.example.org:80/uri/x"));
        assert!(!valid("http://www.example.org/other"));
        assert!(!valid("http://example.org/"));
        assert!(valid("http://site.example"));
        assert!(!valid("http://site/"));
        assert!(!valid("ftp://a.example.org/"));
    }
}
