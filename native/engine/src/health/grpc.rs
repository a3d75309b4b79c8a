//! The messages of the gRPC Health Checking Protocol.

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// `SERVING` in the first field of `HealthCheckResponse`.
const SERVING: [u8; 2] = [8, 1];

/// The path of the call.
pub const PATH: &str = "/grpc.health.v1.Health/Check";

/// A `HealthCheckRequest` for a service, or for the server as a whole if it is empty.
pub fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut len = service.len();
        while len >= 0x80 {
            message.push(len as u8 | 0x80);
            len >>= 7;
        }
        message.push(len as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut out = vec![0];
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
    out
}

/// Whether a body is a `HealthCheckResponse` of a server that serves.
pub fn is_serving(body: &[u8]) -> bool {
    body.first() == Some(&0) && body.get(PREFIX..) == Some(&SERVING[..])
}

/// The status of a call.
pub fn status<'a>(mut fields: impl Iterator<Item = &'a (Vec<u8>, Vec<u8>)>) -> Option<u32> {
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_prefix_and_the_name_of_the_service() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(request(&"a".repeat(200))[5..8], [0x0a, 0xc8, 1]);
        assert!(is_serving(&[0, 0, 0, 0, 2, 8, 1]));
        assert!(!is_serving(&[0, 0, 0, 0, 2, 8, 2]));
        assert!(!is_serving(b""));
    }
}
