//! Names and certificates for TLS towards upstreams.

use super::transfer::Plan;
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::template::{self, Template};
use gallop_conf::model::Level;

/// The expected identity of a TLS server, and this server's own certificate.
pub(super) struct TlsNames {
    pub name: String,
    pub certificate: Option<(String, String)>,
}

/// Evaluate the names; `None` if a certificate path was rejected, which the error log reports.
pub(super) fn tls_names(ex: &Exchange, plan: &Plan<'_>) -> Option<TlsNames> {
    let eval = |t: &Template| String::from_utf8_lossy(&template::eval(ex, t)).into_owned();
    let conf = &plan.conf;
    let path = |t: &Option<Template>| match t {
        Some(t) => certificate_path(ex, t, eval(t)).map(Some),
        None => Some(None),
    };
    let certificate = path(&conf.ssl_certificate)?;
    let key = path(&conf.ssl_certificate_key)?;
    Some(TlsNames {
        name: match &conf.ssl_name {
            Some(t) => eval(t),
            None => plan.default_name.clone(),
        },
        certificate: certificate.zip(key),
    })
}

/// The path of a certificate or key, or its text after `data:`. With `confine_files`, a file that
/// variables name is read here.
fn certificate_path(ex: &Exchange, template: &Template, text: String) -> Option<String> {
    if text.is_empty() || text.starts_with("data:") {
        return Some(text);
    }
    // Variables may produce a relative path.
    let base = &ex.worker.shared.config.conf_prefix;
    let path = FilePath::of_template(ex, Some(base), template).ok()?;
    if template.as_literal().is_some() || !files::is_confined(&ex.loc.conf) {
        return Some(path.to_string_lossy().into_owned());
    }
    match files::read_named(&ex.loc.conf, &path, false) {
        Ok(pem) => Some(format!("data:{}", String::from_utf8_lossy(&pem))),
        Err(e) => {
            ex.log(Level::Error, &crate::log::open_failed(&path, &e));
            None
        }
    }
}
