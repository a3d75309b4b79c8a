//! The result of a handshake in the format of nginx's variables.

use super::x509::Certificate;
use super::{Context, Judge, Verdict};
use gallop_engine::exchange::TlsInfo;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ClientHello;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};
use std::cell::Cell;

/// Describe a completed handshake.
pub fn describe(session: &CommonState, name: Option<&str>, context: &Context) -> TlsInfo {
    let certificates = session.peer_certificates();
    let suite = session.negotiated_cipher_suite();
    TlsInfo {
        protocol: protocol(session.protocol_version()),
        cipher: suite.map_or(String::new(), |s| openssl_name(&format!("{:?}", s.suite()))),
        curve: session
            .negotiated_key_exchange_group()
            .map_or(String::new(), |group| curve(&format!("{:?}", group.name()))),
        alpn: session.alpn_protocol().map_or(String::new(), |name| {
            String::from_utf8_lossy(name).into_owned()
        }),
        server_name: name.unwrap_or_default().to_ascii_lowercase(),
        early_data: Cell::new(session.is_handshaking()),
        session_reused: session.handshake_kind() == Some(HandshakeKind::Resumed),
        ..client(certificates, context.judge.as_deref())
    }
}

/// Describe the certificates that a client presented.
pub fn client(certificates: Option<&[CertificateDer<'_>]>, judge: Option<&Judge>) -> TlsInfo {
    let verdict = match judge {
        Some(judge) => judge.verdict(certificates),
        None if certificates.is_some() => {
            Verdict::Failed("unable to verify the first certificate".into())
        }
        None => Verdict::None,
    };
    let own = certificates.and_then(<[_]>::first);
    let parsed = own.and_then(|der| Some((Certificate::parse(der)?, der)));
    let now = UnixTime::now().as_secs() as i64;
    TlsInfo {
        client_verify: match verdict {
            Verdict::None => "NONE".into(),
            Verdict::Success => "SUCCESS".into(),
            Verdict::Failed(reason) => format!("FAILED:{reason}"),
        },
        client_certificate: own.map(|certificate| certificate.to_vec()),
        client_fields: parsed.map_or(Vec::new(), |(fields, der)| fields.variables(der, now)),
        ..TlsInfo::default()
    }
}

fn protocol(version: Option<ProtocolVersion>) -> String {
    match version {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".into(),
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".into(),
        other => format!("{other:?}"),
    }
}

/// OpenSSL's name for a suite that rustls calls `TLS13_...` or `TLS_ECDHE_...`.
fn openssl_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = name
        .strip_prefix("TLS_")
        .unwrap_or(name)
        .replace("_WITH", "");
    let name = name
        .replace("AES_128", "AES128")
        .replace("AES_256", "AES256");
    name.replace("POLY1305_SHA256", "POLY1305")
        .replace('_', "-")
}

/// The client's offer, joined by colons: OpenSSL's names of suites and groups; codes for signature
/// schemes and for unknown values.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    pub ciphers: String,
    pub curves: String,
    pub sigalgs: String,
}

impl Offered {
    pub fn new(hello: &ClientHello<'_>) -> Self {
        let groups = hello.named_groups().unwrap_or_default();
        let schemes = hello.signature_schemes();
        Self {
            ciphers: joined(hello.cipher_suites(), suite_name),
            curves: joined(groups, |group| {
                let code = u16::from(*group);
                let known = GROUPS.iter().find(|(known, _)| *known == code);
                known.map_or_else(|| format!("0x{code:04x}"), |(_, name)| (*name).to_string())
            }),
            sigalgs: joined(schemes, |scheme| format!("0x{:04x}", u16::from(*scheme))),
        }
    }

    /// Add the offer to the information about a handshake.
    pub fn put(self, info: &mut TlsInfo) {
        (info.ciphers, info.curves, info.sigalgs) = (self.ciphers, self.curves, self.sigalgs);
    }
}

/// TLS groups (RFC 8446, section 4.2.7) with OpenSSL's names.
const GROUPS: [(u16, &str); 16] = [
    (19, "prime192v1"),
    (21, "secp224r1"),
    (22, "secp256k1"),
    (23, "prime256v1"),
    (24, "secp384r1"),
    (25, "secp521r1"),
    (26, "brainpoolP256r1"),
    (27, "brainpoolP384r1"),
    (28, "brainpoolP512r1"),
    (29, "X25519"),
    (30, "X448"),
    (256, "ffdhe2048"),
    (257, "ffdhe3072"),
    (258, "ffdhe4096"),
    (259, "ffdhe6144"),
    (260, "ffdhe8192"),
];

fn joined<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(":")
}

fn suite_name(suite: &CipherSuite) -> String {
    let code = u16::from(*suite);
    match format!("{suite:?}") {
        known if known.starts_with("TLS") => {
            let name = openssl_name(&known);
            name.strip_prefix("RSA-").unwrap_or(&name).to_string()
        }
        _ => match OLD_SUITES.iter().find(|(known, _)| *known == code) {
            Some((_, name)) => (*name).to_string(),
            None => format!("0x{code:04x}"),
        },
    }
}

/// Suites without a rustls name that OpenSSL clients still offer.
const OLD_SUITES: [(u16, &str); 16] = [
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0xc09c, "AES128-CCM"),
    (0xc09d, "AES256-CCM"),
    (0xc09e, "DHE-RSA-AES128-CCM"),
    (0xc09f, "DHE-RSA-AES256-CCM"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
];

/// The label of the exported secret from which [`session_id`] is derived.
pub const SESSION_ID: &[u8] = b"EXPERIMENTAL session id";

/// An identifier of the connection's session. Over TCP it derives from the secret exported under
/// [`SESSION_ID`]. It is unique per connection: a resumed TLS 1.3 session is a new session.
pub fn session_id(bytes: [u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn curve(name: &str) -> String {
    match name {
        "secp256r1" => "prime256v1".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_openssl_gives_them() {
        for (ours, theirs) in [
            ("TLS13_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            (
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                "ECDHE-RSA-AES256-GCM-SHA384",
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(openssl_name(ours), theirs);
        }
    }
}
