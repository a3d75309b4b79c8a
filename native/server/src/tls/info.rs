//! What a handshake agreed on, in the words of nginx's variables.

use super::x509::Certificate;
use super::{Context, Judge, Verdict};
use gallop_engine::exchange::TlsInfo;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion, ServerConnection};
use std::cell::Cell;

/// Describes a finished handshake.
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

/// Describes the certificates that a client showed.
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

/// OpenSSL's name of a suite that rustls names `TLS13_...` or `TLS_ECDHE_...`.
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

/// OpenSSL's names of the suites that a client offers, joined by colons; numbers for those that have no
/// name here.
pub fn offered(suites: &[CipherSuite]) -> String {
    let name = |suite: &CipherSuite| match format!("{suite:?}") {
        known if known.starts_with("TLS") => {
            let name = openssl_name(&known);
            name.strip_prefix("RSA-").unwrap_or(&name).to_string()
        }
        _ => format!("0x{:04x}", u16::from(*suite)),
    };
    suites.iter().map(name).collect::<Vec<_>>().join(":")
}

/// An identifier of the connection's session. No two connections have the same: in TLS 1.3 a session
/// that is resumed goes on as a new one.
pub fn session_id(session: &ServerConnection) -> String {
    let made = session.export_keying_material([0; 32], b"EXPERIMENTAL session id", None);
    let bytes: [u8; 32] = made.unwrap_or_default();
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
