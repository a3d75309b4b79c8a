//! HTTP/3: UDP sockets, QUIC, and the requests it carries.

mod endpoint;
mod udp;
