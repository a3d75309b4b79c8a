//! Checks for outdated TLS settings. gallop offers only TLS 1.2 and 1.3.

use super::scope::{listed, Scope};
use super::Remarks;

const OLD: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
const WEAK: [&str; 12] = [
    "RC4", "DES", "3DES", "DES-CBC3", "MD5", "NULL", "EXP", "EXPORT", "aNULL", "eNULL", "ADH",
    "LOW",
];

pub fn check(scope: &Scope<'_>, out: &mut Remarks) {
    for d in scope.items() {
        let name = d.name();
        if matches!(name, "ssl_protocols" | "proxy_ssl_protocols") {
            let old = listed(
                d.args()
                    .iter()
                    .map(String::as_str)
                    .filter(|w| OLD.contains(w)),
            );
            if !old.is_empty() {
                out.add(
                    d,
                    format!(
                        "\"{name}\" names {old}, which are not safe (RFC 8996) and are not offered"
                    ),
                );
            }
        }
        if matches!(name, "ssl_ciphers" | "proxy_ssl_ciphers") {
            let words = d.args().iter().flat_map(|a| a.split([':', ' ', ',']));
            let allowed = words.filter(|w| !w.starts_with(['!', '-']));
            let weak =
                listed(allowed.filter(|w| w.split(['+', '-']).any(|part| WEAK.contains(&part))));
            if !weak.is_empty() {
                out.add(
                    d,
                    format!("\"{name}\" names {weak}, which are not safe and are not offered"),
                );
            }
        }
    }
}
