//! The settings of TLS to upstreams: directives, and the commands of `*_ssl_conf_command` that
//! override them.

use super::certificates::Source;
use super::{ciphers, error, Result};
use gallop_conf::model::{items, SslCommand, UpConf};
use gallop_conf::template::Template;
use rustls::crypto::CryptoProvider;

/// The settings of a place.
pub struct ClientSettings {
    ciphers: Option<String>,
    suites: Option<String>,
    curves: Option<String>,
    pub protocols: Vec<String>,
    /// The own certificate and key, unless their names contain variables.
    pub pair: Option<(Source, Source)>,
    pub tickets: bool,
}

impl ClientSettings {
    /// Read the settings. `module`: the prefix of the directives.
    ///
    /// # Errors
    /// A certificate has no key.
    pub fn new(conf: &UpConf, module: &str) -> Result<ClientSettings> {
        let mut settings = ClientSettings {
            ciphers: conf.ssl_ciphers.clone(),
            suites: None,
            curves: None,
            protocols: items(&conf.ssl_protocols).to_vec(),
            pair: None,
            tickets: true,
        };
        settings.pair = match settings.follow(items(&conf.ssl_conf_command), module)? {
            Some(pair) => Some(pair),
            None => fixed_pair(conf, module)?,
        };
        Ok(settings)
    }

    /// Apply commands. Returns the certificate and key that they name.
    fn follow(
        &mut self,
        commands: &[SslCommand],
        module: &str,
    ) -> Result<Option<(Source, Source)>> {
        let (mut certificate, mut secret) = (None, None);
        for command in commands {
            match command {
                SslCommand::Certificate(path) => certificate = Some(Source::File(path.clone())),
                SslCommand::PrivateKey(path) => secret = Some(Source::File(path.clone())),
                SslCommand::Ciphers(list) => self.ciphers = Some(list.clone()),
                SslCommand::Suites(list) => self.suites = Some(list.clone()),
                SslCommand::Least(name) => {
                    ciphers::keep_protocols(&mut self.protocols, |v| v >= name.as_str());
                }
                SslCommand::Most(name) => {
                    ciphers::keep_protocols(&mut self.protocols, |v| v <= name.as_str());
                }
                SslCommand::Curves(list) => self.curves = Some(list.clone()),
                SslCommand::Tickets(on) => self.tickets = *on,
                // Only a server chooses.
                SslCommand::ServerPreference(_) => {}
            }
        }
        match (certificate, secret) {
            (Some(certificate), Some(secret)) => Ok(Some((certificate, secret))),
            (None, None) => Ok(None),
            _ => error(format!(
                "\"{module}_ssl_conf_command\" needs Certificate and PrivateKey together"
            )),
        }
    }

    /// The cryptography of rustls, limited to these settings.
    ///
    /// # Errors
    /// Nothing of a list is supported.
    pub fn crypto(&self) -> Result<CryptoProvider> {
        let mut crypto = ciphers::crypto(self.ciphers.as_deref(), self.curves.as_deref())?;
        if let Some(list) = &self.suites {
            ciphers::keep_suites(list, &mut crypto)?;
        }
        Ok(crypto)
    }
}

/// Whether the certificate for a connection depends on the request.
pub fn has_variable_pair(conf: &UpConf) -> bool {
    let varies = |t: &Option<Template>| t.as_ref().is_some_and(|t| t.as_literal().is_none());
    let names_pair = |c: &SslCommand| matches!(c, SslCommand::Certificate(_));
    let is_overridden = items(&conf.ssl_conf_command).iter().any(names_pair);
    !is_overridden && (varies(&conf.ssl_certificate) || varies(&conf.ssl_certificate_key))
}

/// The paths of a certificate without variables.
fn fixed_pair(conf: &UpConf, module: &str) -> Result<Option<(Source, Source)>> {
    let Some(certificate) = &conf.ssl_certificate else {
        return Ok(None);
    };
    let text = |t: &Template| {
        t.as_literal()
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let Some(certificate) = text(certificate) else {
        return Ok(None);
    };
    if certificate.is_empty() {
        return Ok(None);
    }
    let Some(own_key) = &conf.ssl_certificate_key else {
        return error(format!(
            "no \"{module}_ssl_certificate_key\" is defined for certificate \"{certificate}\""
        ));
    };
    Ok(text(own_key).map(|own_key| (Source::new(&certificate), Source::new(&own_key))))
}
