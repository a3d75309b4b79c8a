//! The static table (RFC 7541, appendix A).

#[rustfmt::skip]
static FIELDS: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// The number of static fields; indexes run from 1 to this.
pub const LEN: usize = FIELDS.len();

/// The name and value of the static entry `index` (from 1).
#[inline]
pub fn static_field(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = FIELDS.get(index.wrapping_sub(1))?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// The index of the first static entry with this lower-case name, among the names that responses
/// use.
pub fn response_name(name: &[u8]) -> Option<usize> {
    // From 15 on, the table is in alphabetical order except for three pairs. It is so short that
    // scanning the names with the correct length is best.
    let found = FIELDS[14..].iter().position(|(n, _)| n.as_bytes() == name);
    found.map(|i| i + 15)
}
