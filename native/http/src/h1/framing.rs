//! The length of a request body (RFC 9112, section 6).

use crate::message::{Head, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// The framing, or the status and nginx's message for rejecting the request.
pub fn body_framing(head: &Head) -> Result<BodyFraming, (u16, &'static str)> {
    let mut lengths = head.get_all("content-length");
    let mut codings = head.get_all("transfer-encoding");
    let (length, coding) = (lengths.next(), codings.next());
    if lengths.next().is_some() {
        return Err((400, "client sent duplicate header line: \"Content-Length\""));
    }
    if codings.next().is_some() {
        return Err((
            400,
            "client sent duplicate header line: \"Transfer-Encoding\"",
        ));
    }
    if let Some(coding) = coding {
        if head.version < Version::Http11 {
            return Err((
                400,
                "client sent HTTP/1.0 request with \"Transfer-Encoding\" header",
            ));
        }
        if length.is_some() {
            return Err((
                400,
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
            ));
        }
        if !coding.eq_ignore_ascii_case(b"chunked") {
            return Err((501, "client sent unknown \"Transfer-Encoding\""));
        }
        return Ok(BodyFraming::Chunked);
    }
    match length {
        None => Ok(BodyFraming::None),
        Some(text) => match parse_length(text) {
            Some(n) => Ok(BodyFraming::Length(n)),
            None => Err((400, "client sent invalid \"Content-Length\" header")),
        },
    }
}

/// Parse digits; a sign, a list, or a blank is rejected.
pub fn parse_length(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |n, c| n * 10 + u64::from(c - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(version: Version, headers: &[(&str, &str)]) -> Result<BodyFraming, u16> {
        let mut head = Head {
            version,
            ..Head::default()
        };
        headers
            .iter()
            .for_each(|(n, v)| head.push_header(n.as_bytes(), v.as_bytes()));
        body_framing(&head).map_err(|e| e.0)
    }

    #[test]
    fn conflicting_or_malformed_lengths_are_refused() {
        let v = Version::Http11;
        assert_eq!(framing(v, &[]), Ok(BodyFraming::None));
        assert_eq!(
            framing(v, &[("Content-Length", "5")]),
            Ok(BodyFraming::Length(5))
        );
        assert_eq!(
            framing(v, &[("Transfer-Encoding", "Chunked")]),
            Ok(BodyFraming::Chunked)
        );
        for bad in ["+5", "-1", "5, 5", "0x5", "", "5 5", "99999999999999999999"] {
            assert_eq!(framing(v, &[("Content-Length", bad)]), Err(400), "{bad:?}");
        }
        assert_eq!(
            framing(v, &[("Content-Length", "5"), ("content-length", "5")]),
            Err(400)
        );
        assert_eq!(
            framing(
                v,
                &[("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
            ),
            Err(400)
        );
        assert_eq!(
            framing(v, &[("Transfer-Encoding", "gzip, chunked")]),
            Err(501)
        );
        assert_eq!(
            framing(
                v,
                &[("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "x")]
            ),
            Err(400)
        );
        assert_eq!(
            framing(Version::Http10, &[("Transfer-Encoding", "chunked")]),
            Err(400)
        );
    }
}
