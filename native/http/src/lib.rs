//! Sans-IO HTTP/1.1, HTTP/2, HTTP/3, FastCGI, and memcached messages. This crate opens no sockets.

pub mod client_hello;
pub mod fastcgi;
pub mod flood;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod head;
pub mod hpack;
pub mod memcached;
pub mod message;
pub mod proxy_protocol;
pub mod qpack;
pub mod section_cache;
pub mod stream_table;
pub mod token;
