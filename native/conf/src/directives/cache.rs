//! Response caches: the common part of `proxy_cache_*` and `fastcgi_cache_*`.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::invalid_parameter;
use crate::template::Template;
use crate::values::{parse_digits, parse_msec, parse_sec, parse_size};
use std::sync::Arc;

/// The smallest size of a keys zone: two pages, as in nginx.
const MIN_KEYS: u64 = 8192;

/// `proxy_cache_path`.
pub fn path(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let mut zone = CacheZone {
        name: String::new(),
        path: b.path(args[0].trim_end_matches('/')),
        levels: Vec::new(),
        keys_size: 0,
        inactive: 600_000,
        max_size: None,
        min_free: 0,
        manager_files: 100,
        manager_sleep: 50,
    };
    for arg in &args[1..] {
        parameter(d, &mut zone, arg)?;
    }
    if zone.keys_size == 0 {
        return Err(ConfError::new(format!(
            "\"{}\" must have \"keys_zone\" parameter",
            d.name()
        )));
    }
    let zones = &mut b.http().cache_zones;
    if zones.iter().any(|z| z.name == zone.name) {
        return Err(ConfError::new(format!("duplicate zone \"{}\"", zone.name)));
    }
    zones.push(zone);
    Ok(())
}

fn parameter(d: &Directive, zone: &mut CacheZone, arg: &str) -> Result<()> {
    let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
    let bad = |what: &str| ConfError::new(format!("invalid {what} \"{arg}\""));
    let bad_value = || bad(&format!("{name} value"));
    match name {
        "levels" => zone.levels = levels(value).ok_or_else(|| bad("\"levels\""))?,
        "keys_zone" => {
            let size = value.split_once(':').map(|(n, s)| (n, parse_size(s)));
            let Some((name, Some(size))) = size else {
                return Err(bad("keys zone size"));
            };
            if size < MIN_KEYS {
                return Err(ConfError::new(format!("keys zone \"{arg}\" is too small")));
            }
            zone.name = name.to_string();
            zone.keys_size = size;
        }
        "inactive" => zone.inactive = parse_sec(value).ok_or_else(bad_value)? * 1000,
        "max_size" => zone.max_size = Some(parse_size(value).ok_or_else(bad_value)?),
        "min_free" => zone.min_free = parse_size(value).ok_or_else(bad_value)?,
        "manager_files" => zone.manager_files = parse_digits(value).ok_or_else(bad_value)?,
        "manager_sleep" => zone.manager_sleep = parse_msec(value).ok_or_else(bad_value)?,
        // Entries are always written beside their final path.
        "use_temp_path" if matches!(value, "on" | "off") => {}
        "use_temp_path" => {
            return Err(ConfError::new(format!(
                "invalid use_temp_path value \"{arg}\", it must be \"on\" or \"off\""
            )));
        }
        "loader_files" => {
            parse_digits(value).ok_or_else(bad_value)?;
        }
        "manager_threshold" | "loader_sleep" | "loader_threshold" => {
            parse_msec(value).ok_or_else(bad_value)?;
        }
        _ => return Err(invalid_parameter(d, arg)),
    }
    Ok(())
}

/// Parse one to three numbers of 1 or 2.
fn levels(text: &str) -> Option<Vec<usize>> {
    let level = |part: &str| match part {
        "1" => Some(1),
        "2" => Some(2),
        _ => None,
    };
    let all: Option<Vec<usize>> = text.split(':').map(level).collect();
    all.filter(|l| l.len() <= 3)
}

/// `proxy_cache`.
pub fn cache_use(b: &mut Builder, d: &Directive) -> Result<CacheUse> {
    let word = d.args()[0].as_str();
    if word == "off" {
        return Ok(CacheUse::Off);
    }
    if word.contains('$') {
        return Ok(CacheUse::Variable(b.template(word, &d.place)?));
    }
    let name = word.to_string();
    let use_of = (name.clone(), d.name().to_string(), d.place.clone());
    b.http().cache_uses.push(use_of);
    Ok(CacheUse::Zone(name))
}

/// `proxy_cache_valid`; the rules of a level accumulate.
pub fn valid(d: &Directive) -> Result<Vec<CacheValid>> {
    let (time, statuses) = d.args().split_last().expect("arity checked");
    let seconds =
        parse_sec(time).ok_or_else(|| ConfError::new(format!("invalid time value \"{time}\"")))?;
    let rule = |status| CacheValid { status, seconds };
    if statuses.is_empty() {
        return Ok([200, 301, 302].map(|s| rule(Some(s))).to_vec());
    }
    statuses
        .iter()
        .map(|word| match word.as_str() {
            "any" => Ok(rule(None)),
            _ => {
                let status = parse_digits(word).filter(|s| (100..=599).contains(s));
                let status =
                    status.ok_or_else(|| ConfError::new(format!("invalid status \"{word}\"")))?;
                Ok(rule(Some(status as u16)))
            }
        })
        .collect()
}

/// Reject caches without a declaration.
pub fn check(http: &crate::builder::HttpNode) -> Result<()> {
    for (name, directive, place) in &http.cache_uses {
        if !http.cache_zones.iter().any(|z| z.name == *name) {
            let message = format!("\"{directive}\" zone \"{name}\" is unknown, maybe you haven't declared it with \"{directive}_path\"");
            return Err(ConfError::at(message, place));
        }
    }
    Ok(())
}

/// Parse values of which any non-empty one decides, as in `proxy_no_cache`.
pub fn templates(b: &mut Builder, d: &Directive) -> Result<Arc<Vec<Template>>> {
    let all: Result<Vec<Template>> = d.args().iter().map(|w| b.template(w, &d.place)).collect();
    all.map(Arc::new)
}

/// `proxy_store`: off, on (the path of a static file), or a path.
pub fn store_place(b: &mut Builder, d: &Directive) -> Result<StorePlace> {
    match d.args()[0].as_str() {
        "off" => Ok(StorePlace::Off),
        "on" => Ok(StorePlace::On),
        "" => Err(ConfError::new("empty path")),
        word => {
            let base = b.prefix.clone();
            Ok(StorePlace::Path(b.path_template(word, &base, &d.place)?))
        }
    }
}

/// Parse `user:rw group:r all:r` into the bits of a file mode.
pub fn access_mode(d: &Directive) -> Result<u32> {
    let mut mode = 0o600;
    for word in d.args() {
        let bad = || ConfError::new(format!("invalid value \"{word}\""));
        let (who, rights) = word.split_once(':').ok_or_else(bad)?;
        let rights = match rights {
            "rw" => 6,
            "r" => 4,
            _ => return Err(bad()),
        };
        mode |= match who {
            "user" => rights << 6,
            "group" => rights << 3,
            "all" => rights << 3 | rights,
            _ => return Err(bad()),
        };
    }
    Ok(mode)
}
