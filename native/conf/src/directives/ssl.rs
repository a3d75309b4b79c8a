//! TLS towards clients.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_sec, parse_size};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The smallest shared memory in bytes.
const SMALLEST_ZONE: u64 = 8 * 4096;

pub const TABLE: &[Spec] = &[
    with("ssl_certificate", HS | STREAM | SSRV, ONE, |b, d| {
        let file = certificate(b, d)?;
        push(&mut b.srv().ssl_certificate, file);
        Ok(())
    }),
    with("ssl_certificate_key", HS | STREAM | SSRV, ONE, |b, d| {
        let file = certificate(b, d)?;
        push(&mut b.srv().ssl_certificate_key, file);
        Ok(())
    }),
    with("ssl_password_file", HS | STREAM | SSRV, ONE, |b, d| {
        let is_known = b.srv().ssl_password_file.is_some();
        let path = password_file(b, d, is_known)?;
        store(&mut b.srv().ssl_password_file, path, d)
    }),
    with(
        "ssl_certificate_cache",
        HS | STREAM | SSRV,
        Arity(1, 3),
        |b, d| {
            let cache = certificate_cache(d)?;
            store(&mut b.srv().ssl_certificate_cache, cache, d)
        },
    ),
    with("ssl_protocols", HS | STREAM | SSRV, MORE, |b, d| {
        let protocols = protocols(b, d)?;
        add_values(&mut b.srv().ssl_protocols, &protocols)
    }),
    simple(
        "ssl_ciphers",
        HS | STREAM | SSRV,
        ONE,
        Setter::Str(|b| &mut b.srv().ssl_ciphers),
    ),
    simple(
        "ssl_ecdh_curve",
        HS | STREAM | SSRV,
        ONE,
        Setter::Str(|b| &mut b.srv().ssl_ecdh_curve),
    ),
    simple(
        "ssl_dhparam",
        HS | STREAM | SSRV,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().ssl_dhparam),
    ),
    simple(
        "ssl_prefer_server_ciphers",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_prefer_server_ciphers),
    ),
    with(
        "ssl_session_cache",
        HS | STREAM | SSRV,
        Arity(1, 2),
        session_cache,
    ),
    simple(
        "ssl_session_tickets",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_session_tickets),
    ),
    with("ssl_session_ticket_key", HS | STREAM | SSRV, ONE, |b, d| {
        let path = b.conf_path(&d.args()[0]);
        push(&mut b.srv().ssl_session_ticket_key, path);
        Ok(())
    }),
    simple(
        "ssl_session_timeout",
        HS | STREAM | SSRV,
        ONE,
        Setter::Sec(|b| &mut b.srv().ssl_session_timeout),
    ),
    simple(
        "ssl_buffer_size",
        HS,
        ONE,
        Setter::Size(|b| &mut b.srv().ssl_buffer_size),
    ),
    with("ssl_verify_client", HS | STREAM | SSRV, ONE, |b, d| {
        let choices = &[
            ("off", VerifyClient::Off),
            ("on", VerifyClient::On),
            ("optional", VerifyClient::Optional),
            ("optional_no_ca", VerifyClient::OptionalNoCa),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.srv().ssl_verify_client, value, d)
    }),
    simple(
        "ssl_verify_depth",
        HS | STREAM | SSRV,
        ONE,
        Setter::Num(|b| &mut b.srv().ssl_verify_depth),
    ),
    simple(
        "ssl_client_certificate",
        HS | STREAM | SSRV,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().ssl_client_certificate),
    ),
    simple(
        "ssl_trusted_certificate",
        HS | STREAM | SSRV,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().ssl_trusted_certificate),
    ),
    simple(
        "ssl_crl",
        HS | STREAM | SSRV,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().ssl_crl),
    ),
    with("ssl_ocsp", HS | STREAM | SSRV, ONE, |b, d| {
        let choices = &[("off", Ocsp::Off), ("on", Ocsp::On), ("leaf", Ocsp::Leaf)];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.srv().ssl_ocsp, value, d)
    }),
    simple(
        "ssl_ocsp_responder",
        HS | STREAM | SSRV,
        ONE,
        Setter::Str(|b| &mut b.srv().ssl_ocsp_responder),
    ),
    with("ssl_ocsp_cache", HS | STREAM | SSRV, ONE, |b, d| {
        let cache = ocsp_cache(&d.args()[0])?;
        store(&mut b.srv().ssl_ocsp_cache, cache, d)
    }),
    simple(
        "ssl_stapling",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_stapling),
    ),
    simple(
        "ssl_stapling_file",
        HS | STREAM | SSRV,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().ssl_stapling_file),
    ),
    simple(
        "ssl_stapling_responder",
        HS | STREAM | SSRV,
        ONE,
        Setter::Str(|b| &mut b.srv().ssl_stapling_responder),
    ),
    simple(
        "ssl_stapling_verify",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_stapling_verify),
    ),
    simple(
        "ssl_early_data",
        HS,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_early_data),
    ),
    simple(
        "ssl_certificate_compression",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_certificate_compression),
    ),
    with(
        "ssl_conf_command",
        HS | STREAM | SSRV,
        Arity(2, 2),
        conf_command,
    ),
    simple(
        "acme_tls_challenges",
        HS,
        ONE,
        Setter::ConfPath(|b| &mut b.srv().acme_tls_challenges),
    ),
    simple(
        "ssl_reject_handshake",
        HS | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.srv().ssl_reject_handshake),
    ),
];

/// A certificate or key: text after `data:`, otherwise a file whose path may contain variables.
pub fn certificate(b: &mut Builder, d: &Directive) -> Result<crate::template::Template> {
    let word = &d.args()[0];
    if word.starts_with("data:") {
        return b.template(word, &d.place);
    }
    let base = b.conf_prefix.clone();
    b.path_template(word, &base, &d.place)
}

/// A password file, which must be readable. A pipe can be read only once.
pub fn password_file(b: &mut Builder, d: &Directive, is_known: bool) -> Result<PathBuf> {
    if is_known {
        return Err(duplicate(d));
    }
    let path = b.conf_path(&d.args()[0]);
    if !std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_fifo()) {
        read_file(&path)?;
    }
    Ok(path)
}

/// The cache for certificates whose paths contain variables; `None` if there is none.
pub fn certificate_cache(d: &Directive) -> Result<Option<CertificateCache>> {
    let mut cache = CertificateCache {
        max: 0,
        inactive: 10_000,
        valid: 60_000,
    };
    let mut off = false;
    for arg in d.args() {
        let bad = || invalid_parameter(d, arg);
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("off", "") => off = true,
            ("max", v) => {
                cache.max = parse_digits(v).filter(|&n| n > 0).ok_or_else(bad)?;
            }
            ("inactive", v) => cache.inactive = 1000 * parse_sec(v).ok_or_else(bad)?,
            ("valid", v) => cache.valid = 1000 * parse_sec(v).ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    if off {
        return Ok(None);
    }
    if cache.max == 0 {
        return Err(ConfError::new(format!(
            "\"{}\" must have the \"max\" parameter",
            d.name()
        )));
    }
    Ok(Some(cache))
}

const VERSIONS: [&str; 6] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Names of TLS versions. Unsupported old versions are accepted but never offered.
pub fn protocols(b: &mut Builder, d: &Directive) -> Result<Arc<Vec<String>>> {
    let mut out: Vec<String> = Vec::new();
    for word in d.args() {
        let known = VERSIONS.iter().find(|k| k.eq_ignore_ascii_case(word));
        let known = known.ok_or_else(|| ConfError::new(format!("invalid value \"{word}\"")))?;
        if out.iter().any(|other| other == known) {
            b.warn(format!("duplicate value \"{word}\""), &d.place);
        }
        out.push((*known).to_string());
    }
    Ok(Arc::new(out))
}

fn conf_command(b: &mut Builder, d: &Directive) -> Result<()> {
    let commands = commands(b, d)?;
    add_values(&mut b.srv().ssl_conf_command, &commands)
}

/// Parse a command of OpenSSL's configuration: those with an equivalent directive.
pub fn commands(b: &Builder, d: &Directive) -> Result<Vec<SslCommand>> {
    let (name, value) = (d.args()[0].as_str(), d.args()[1].as_str());
    let command = match name {
        "Certificate" => SslCommand::Certificate(b.conf_path(value)),
        "PrivateKey" => SslCommand::PrivateKey(b.conf_path(value)),
        "CipherString" => SslCommand::Ciphers(value.into()),
        "Ciphersuites" => SslCommand::Suites(value.into()),
        "MinProtocol" if VERSIONS.contains(&value) => SslCommand::Least(value.into()),
        "MaxProtocol" if VERSIONS.contains(&value) => SslCommand::Most(value.into()),
        "Curves" | "Groups" => SslCommand::Curves(value.into()),
        "Options" => return options(d, value),
        _ => return Err(unknown_command(d, value)),
    };
    Ok(vec![command])
}

fn options(d: &Directive, list: &str) -> Result<Vec<SslCommand>> {
    let mut commands = Vec::new();
    for option in list.split(',') {
        let on = !option.starts_with('-');
        commands.push(match option.trim_start_matches(['+', '-']) {
            // Kernel TLS would only change the way that bytes are sent.
            "KTLS" => continue,
            "SessionTicket" => SslCommand::Tickets(on),
            "ServerPreference" => SslCommand::ServerPreference(on),
            _ => return Err(unknown_command(d, option)),
        });
    }
    Ok(commands)
}

fn unknown_command(d: &Directive, value: &str) -> ConfError {
    let (directive, name) = (d.name(), &d.args()[0]);
    ConfError::new(format!(
        "{directive} \"{name} {value}\" is not supported: there are Certificate, PrivateKey, \
         CipherString, Ciphersuites, MinProtocol, MaxProtocol, Curves, Groups and Options with SessionTicket, \
         ServerPreference and KTLS"
    ))
}

/// The name and size of `shared:name:size`.
fn ocsp_cache(word: &str) -> Result<Option<(String, u64)>> {
    if word == "off" {
        return Ok(None);
    }
    let invalid = || ConfError::new(format!("invalid OCSP cache \"{word}\""));
    let zone = word.strip_prefix("shared:").and_then(|z| z.split_once(':'));
    let (name, size) = zone
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(invalid)?;
    let bytes = parse_size(size).ok_or_else(invalid)?;
    if bytes < SMALLEST_ZONE {
        return Err(ConfError::new(format!(
            "OCSP cache \"{word}\" is too small"
        )));
    }
    Ok(Some((name.to_string(), bytes)))
}

fn session_cache(b: &mut Builder, d: &Directive) -> Result<()> {
    let invalid = |w: &str| ConfError::at(format!("invalid session cache \"{w}\""), &d.place);
    let (mut builtin, mut zone, mut fixed) = (false, None, None);
    for word in d.args() {
        match word.split(':').collect::<Vec<_>>().as_slice() {
            ["off"] => fixed = Some(SessionCache::Off),
            ["none"] => fixed = Some(SessionCache::None),
            ["builtin"] => builtin = true,
            ["builtin", n] => {
                parse_digits(n).ok_or_else(|| invalid(word))?;
                builtin = true;
            }
            ["shared", name, size] if !name.is_empty() => {
                let bytes = parse_size(size).ok_or_else(|| invalid(word))?;
                if bytes < SMALLEST_ZONE {
                    return Err(ConfError::new(format!(
                        "session cache \"{word}\" is too small"
                    )));
                }
                zone = Some(((*name).to_string(), bytes));
            }
            ["shared", name] if !name.is_empty() => zone = Some(((*name).to_string(), 0)),
            _ => return Err(invalid(word)),
        }
    }
    let value = fixed.unwrap_or(SessionCache::Shared { builtin, zone });
    store(&mut b.srv().ssl_session_cache, value, d)
}
