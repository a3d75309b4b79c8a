//! `$invalid_referer`.

use crate::exchange::Exchange;
use gallop_conf::model::Referers;
use gallop_conf::names::{NameTable, ServerName};

/// Longer host names are invalid.
const MAX_HOST: usize = 256;

/// Whether `valid_referers` does not list the request's `Referer`.
pub fn is_invalid(ex: &Exchange) -> bool {
    let Some(rules) = &ex.loc.conf.valid_referers else {
        return false;
    };
    let names = match rules.server_names {
        true => &ex.server.names[..],
        false => &[],
    };
    if rules.names.is_empty() && rules.patterns.is_empty() && names.is_empty() {
        return false;
    }
    match ex.head.get("referer") {
        None => !rules.none,
        Some(field) => {
            let none = NameTable::default();
            let own = match rules.server_names {
                true => ex.server.referers.get_or_init(|| table(names)),
                false => &none,
            };
            !is_valid(rules, names, own, field)
        }
    }
}

fn table(names: &[ServerName]) -> NameTable<()> {
    let mut table = NameTable::default();
    for name in names {
        table.add(name, &());
    }
    table
}

fn is_valid(rules: &Referers, names: &[ServerName], own: &NameTable<()>, field: &[u8]) -> bool {
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
    let by_pattern = names.iter().any(|n| match n {
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

/// The most specific entry for a host, with the path prefix that it requires.
fn listed<'a>(rules: &'a Referers, own: &NameTable<()>, host: &[u8]) -> Option<Option<&'a str>> {
    let host = std::str::from_utf8(host).ok().filter(|h| !h.is_empty())?;
    let listed = rules.names.find(host);
    match own.find(host) {
        Some((close, _)) if listed.is_none_or(|(other, _)| close > other) => Some(None),
        _ => listed.map(|(_, path)| path.as_deref()),
    }
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
        let mut rules = Referers::default();
        for (name, path) in names {
            assert!(rules.names.add(&parse(name), &path.map(str::to_string)));
        }
        rules
    }

    #[test]
    fn hosts_are_found_by_the_closest_name_and_then_by_path() {
        let rules = rules(&[
            ("*.example.org", None),
            ("www.example.org", Some("/uri")),
            ("site.*", None),
        ]);
        let valid = |field: &str| is_valid(&rules, &[], &NameTable::default(), field.as_bytes());
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
