//! Sans-IO HTTP/1.1, HTTP/2, HTTP/3 and FastCGI messages; knows no sockets.

pub mod fastcgi;
pub mod hpack;
pub mod token;
