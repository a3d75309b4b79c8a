//! Names and certificates for TLS towards upstreams.

use crate::files::{self, FilePath};
use crate::scope::Scope;
use crate::template::{self, Template};
use gallop_conf::model::{Level, UpConf};

/// The expected identity of a TLS server, and this server's own certificate.
pub(crate) struct TlsNames {
    pub name: String,
    pub certificate: Option<(String, String)>,
    /// The protocols to offer by ALPN, if they are configured.
    pub protocols: Option<Vec<Vec<u8>>>,
}

/// Evaluate the names; `None` if a certificate path was rejected, which the error log reports.
/// `default_name` is the name if `*_ssl_name` sets none.
pub(crate) fn tls_names<S: Scope + ?Sized>(
    scope: &S,
    conf: &UpConf,
    default_name: &str,
) -> Option<TlsNames> {
    let eval = |t: &Template| String::from_utf8_lossy(&template::eval(scope, t)).into_owned();
    let path = |t: &Option<Template>| match t {
        Some(t) => certificate_path(scope, t, eval(t)).map(Some),
        None => Some(None),
    };
    let certificate = path(&conf.ssl_certificate)?;
    let key = path(&conf.ssl_certificate_key)?;
    // TLS cannot express empty names and names that need more than one byte for their length.
    let fits = |name: &Vec<u8>| (1..=255).contains(&name.len());
    let protocols = conf.ssl_alpn.as_ref().map(|names| {
        let names = names.iter().map(|name| template::eval(scope, name));
        names.filter(fits).collect()
    });
    Some(TlsNames {
        protocols,
        name: match &conf.ssl_name {
            Some(t) => eval(t),
            None => default_name.to_string(),
        },
        certificate: certificate.zip(key),
    })
}

/// The path of a certificate or key, or its text after `data:`. With `confine_files`, a file that
/// variables name is read here.
fn certificate_path<S: Scope + ?Sized>(
    scope: &S,
    template: &Template,
    text: String,
) -> Option<String> {
    if text.is_empty() || text.starts_with("data:") {
        return Some(text);
    }
    // Variables may produce a relative path.
    let base = &scope.worker().shared.config.conf_prefix;
    let path = FilePath::of_template(scope, Some(base), template).ok()?;
    if template.as_literal().is_some() || !files::is_confined(scope.settings()) {
        return Some(path.to_string_lossy().into_owned());
    }
    match files::read_named(scope.settings(), &path, false) {
        Ok(pem) => Some(format!("data:{}", String::from_utf8_lossy(&pem))),
        Err(e) => {
            scope.log(Level::Error, &crate::log::open_failed(&path, &e));
            None
        }
    }
}
