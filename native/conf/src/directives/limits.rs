//! limit_req and limit_conn.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::Template;
use crate::values::{parse_digits, parse_size};

pub const TABLE: &[Spec] = &[
    with("limit_req_zone", HTTP, Arity(3, 4), limit_req_zone),
    with("limit_req", HSL, Arity(1, 3), limit_req),
    with("limit_req_log_level", HSL, ONE, |b, d| {
        let value = choice(d, &d.args()[0], LEVELS)?;
        store(&mut b.loc().limit_req_log_level, value, d)
    }),
    with("limit_req_status", HSL, ONE, |b, d| {
        status(b, d, |l| &mut l.limit_req_status)
    }),
    simple(
        "limit_req_dry_run",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().limit_req_dry_run),
    ),
    with("limit_conn_zone", HTTP | STREAM, TWO, limit_conn_zone),
    with("limit_conn", HSL | STREAM | SSRV, TWO, limit_conn),
    with("limit_conn_log_level", HSL | STREAM | SSRV, ONE, |b, d| {
        let value = choice(d, &d.args()[0], LEVELS)?;
        store(&mut b.loc().limit_conn_log_level, value, d)
    }),
    with("limit_conn_status", HSL, ONE, |b, d| {
        status(b, d, |l| &mut l.limit_conn_status)
    }),
    simple(
        "limit_conn_dry_run",
        HSL | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.loc().limit_conn_dry_run),
    ),
];

const LEVELS: &[(&str, LogLevel)] = &[
    ("info", LogLevel::Info),
    ("notice", LogLevel::Notice),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
];

fn status(b: &mut Builder, d: &Directive, get: fn(&mut LocConf) -> &mut Option<u64>) -> Result<()> {
    let n = parse_digits(&d.args()[0]).ok_or_else(|| invalid_number(d))?;
    if !(400..=599).contains(&n) {
        return Err(ConfError::new("value must be between 400 and 599"));
    }
    store(get(b.loc()), n, d)
}

/// Parse `zone=name:size`.
fn zone_param(word: &str) -> Result<(String, u64)> {
    let invalid = || ConfError::new(format!("invalid zone size \"{word}\""));
    let text = word.strip_prefix("zone=").ok_or_else(invalid)?;
    let (name, size) = text.rsplit_once(':').ok_or_else(invalid)?;
    let size = parse_size(size).ok_or_else(invalid)?;
    if name.is_empty() {
        return Err(invalid());
    }
    if size < 8 * 4096 {
        return Err(ConfError::new(format!("zone \"{name}\" is too small")));
    }
    Ok((name.to_string(), size))
}

/// The index of a zone, which may be declared later.
fn zone_index(zones: &mut Vec<LimitZone>, name: &str) -> usize {
    if let Some(i) = zones.iter().position(|z| z.name == name) {
        return i;
    }
    zones.push(LimitZone {
        name: name.into(),
        key: Template::default(),
        size: 0,
        rate: 0,
    });
    zones.len() - 1
}

fn declare(zones: &mut Vec<LimitZone>, zone: LimitZone, directive: &str, kind: &str) -> Result<()> {
    let i = zone_index(zones, &zone.name);
    if zones[i].size != 0 {
        let message = format!(
            "{directive} \"{}\" is already bound to key of a {kind}",
            zone.name
        );
        return Err(ConfError::new(message));
    }
    zones[i] = zone;
    Ok(())
}

/// Parse a positive number of requests into thousandths, with an upper limit.
fn thousandths(digits: &str) -> Option<u64> {
    let n = parse_digits(digits).filter(|n| (1..=u64::from(u32::MAX)).contains(n))?;
    Some(n * 1000)
}

fn limit_req_zone(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let key = b.template(&args[0], &d.place)?;
    let (mut zone, mut rate) = (None, 1000);
    for word in &args[1..] {
        if word.starts_with("zone=") {
            zone = Some(zone_param(word)?);
        } else if let Some(text) = word.strip_prefix("rate=") {
            let invalid = || ConfError::new(format!("invalid rate \"{word}\""));
            let (digits, scale) = if let Some(n) = text.strip_suffix("r/s") {
                (n, 1)
            } else if let Some(n) = text.strip_suffix("r/m") {
                (n, 60)
            } else {
                (text, 1)
            };
            rate = thousandths(digits).ok_or_else(invalid)? / scale;
        } else if word != "sync" {
            return Err(invalid_parameter(d, word));
        }
    }
    let Some((name, size)) = zone else {
        return Err(ConfError::new(
            "\"limit_req_zone\" must have \"zone\" parameter",
        ));
    };
    let zone = LimitZone {
        name,
        key,
        size,
        rate,
    };
    declare(
        &mut b.http().limit_req_zones,
        zone,
        "limit_req_zone",
        "limit",
    )
}

fn limit_req(b: &mut Builder, d: &Directive) -> Result<()> {
    let (mut name, mut burst, mut delay) = (None, 0, 0);
    for word in d.args() {
        match word.split_once('=') {
            Some(("zone", v)) => name = Some(v.to_string()),
            Some(("burst", v)) => {
                burst = thousandths(v)
                    .ok_or_else(|| ConfError::new(format!("invalid burst value \"{word}\"")))?;
            }
            Some(("delay", v)) => {
                delay = thousandths(v)
                    .ok_or_else(|| ConfError::new(format!("invalid delay value \"{word}\"")))?;
            }
            None if word == "nodelay" => delay = u64::MAX,
            _ => return Err(invalid_parameter(d, word)),
        }
    }
    let Some(name) = name else {
        return Err(ConfError::new("\"limit_req\" must have \"zone\" parameter"));
    };
    let zone = zone_index(&mut b.http().limit_req_zones, &name);
    if items(&b.loc().limit_req).iter().any(|l| l.zone == zone) {
        return Err(duplicate(d));
    }
    b.http()
        .zone_uses
        .push((zone, "limit_req", d.place.clone()));
    push(&mut b.loc().limit_req, LimitReq { zone, burst, delay });
    Ok(())
}

fn limit_conn_zone(b: &mut Builder, d: &Directive) -> Result<()> {
    let key = b.template(&d.args()[0], &d.place)?;
    let word = &d.args()[1];
    if !word.starts_with("zone=") {
        return Err(invalid_parameter(d, word));
    }
    let (name, size) = zone_param(word)?;
    let zone = LimitZone {
        name,
        key,
        size,
        rate: 0,
    };
    declare(
        &mut b.http().limit_conn_zones,
        zone,
        "limit_conn_zone",
        "limit",
    )
}

fn limit_conn(b: &mut Builder, d: &Directive) -> Result<()> {
    let limit = parse_digits(&d.args()[1]).filter(|&n| n > 0);
    let limit = limit.ok_or_else(|| {
        ConfError::new(format!("invalid number of connections \"{}\"", d.args()[1]))
    })?;
    if limit > 65535 {
        return Err(ConfError::new("connection limit must be less 65536"));
    }
    let zone = zone_index(&mut b.http().limit_conn_zones, &d.args()[0]);
    if items(&b.loc().limit_conn).iter().any(|l| l.zone == zone) {
        return Err(duplicate(d));
    }
    b.http()
        .zone_uses
        .push((zone, "limit_conn", d.place.clone()));
    push(&mut b.loc().limit_conn, LimitConn { zone, limit });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_requests_that_cannot_be_meant_are_refused() {
        assert_eq!(thousandths("1"), Some(1000));
        assert_eq!(thousandths("0004294967295"), Some(4_294_967_295_000));
        for bad in [
            "",
            "0",
            "-1",
            "4294967296",
            "769442703449072830",
            "99999999999999999999",
        ] {
            assert_eq!(thousandths(bad), None, "{bad}");
        }
    }
}
