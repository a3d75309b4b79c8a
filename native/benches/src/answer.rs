//! The response of both limit programs.

/// A head as nginx sends it with a file, and a body of `size` bytes.
pub fn with_body(size: usize, close: bool) -> Vec<u8> {
    let connection = if close { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: limit\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Type: text/html\r\nContent-Length: {size}\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: {connection}\r\n\
         ETag: \"2ebcb071-a3\"\r\nAccept-Ranges: bytes\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + size, b'x');
    answer
}
