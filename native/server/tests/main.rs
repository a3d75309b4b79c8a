//! The real binary under test, all of it in one program: linking the whole server takes longer than most of these
//! tests, and each program would do it again.

#[path = "common/applications.rs"]
mod applications;
#[path = "common/backend.rs"]
mod backend;
mod common;
#[path = "common/h2.rs"]
mod h2;
#[path = "common/h2_server.rs"]
mod h2_server;
#[path = "common/h3.rs"]
mod h3;
#[path = "common/mmdb.rs"]
mod mmdb;
#[path = "common/movie.rs"]
mod movie;
#[path = "common/nginx.rs"]
mod nginx;
#[path = "common/ports.rs"]
mod ports;
#[path = "common/site.rs"]
mod site;
#[path = "common/udp.rs"]
mod udp;

mod attacks;
mod cache;
mod challenges;
mod command_line;
mod confined;
mod dav;
mod drop_in;
mod edges;
mod escaped;
mod flv;
mod gateways;
mod geoip2;
mod grpc;
mod heads;
mod health;
mod health_limits;
mod health_match;
mod health_protocols;
mod http1;
mod http2;
mod http3;
mod idle;
mod locations;
mod logged;
mod memcached;
mod modules;
mod mp4;
mod mp4_attacks;

mod named;
mod ocsp;
mod passing;
mod passing_streams;
mod prepared;
mod quic_attacks;
mod quic_floods;
mod resolver;
mod reuse;
mod services;
mod serving;
mod smuggling;
mod ssi;
mod status;
mod sticky;
mod stream;
mod stream_health;
mod stream_pass;
mod stream_udp;
mod stream_udp_limits;
mod stream_udp_unix;
mod survival;
mod tls;
mod upgrade;
mod upstream_tls;
mod upstreams;
mod userid;

/// How long a test waits for what must come; the machine may have other work to do.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn every_test_file_is_part_of_this_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for entry in std::fs::read_dir(folder).expect("the folder of tests") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a plain name");
        let Some(module) = name.strip_suffix(".rs").filter(|m| *m != "main") else {
            continue;
        };
        let is_named = include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(is_named, "tests/main.rs does not name {name}");
    }
}
