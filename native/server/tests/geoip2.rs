//! `geoip2` of `http` and `stream`, with databases that the tests write.

use crate::mmdb::{Database, Value};
use crate::ports::free_port;
use crate::site::{check, read_all, Folder, Server};
use crate::udp::HTTP;
use gallop_conf::mmdb::Step;
use std::net::TcpStream;
use std::time::Duration;

fn country(code: &str) -> Value {
    let names = Value::map(&[("en", Value::text("Somewhere"))]);
    let subdivisions = Value::Array(vec![
        Value::map(&[("iso_code", Value::text("S0"))]),
        Value::map(&[("iso_code", Value::text("S1"))]),
    ]);
    Value::map(&[
        (
            "country",
            Value::map(&[("iso_code", Value::text(code)), ("names", names)]),
        ),
        ("subdivisions", subdivisions),
        ("latitude", Value::Double(-1.25)),
        ("is_anonymous", Value::Bool(true)),
        ("population", Value::Uint32(77)),
        ("0", Value::text("zero")),
    ])
}

/// A folder with a database in which 127.0.0.1 and 192.0.2.0/24 have entries.
fn folder(code: &str) -> Folder {
    let folder = Folder::new();
    write(&folder, code);
    folder
}

fn write(folder: &Folder, code: &str) {
    let mut database = Database::default();
    database.add([127, 0, 0, 1], 32, &country(code));
    database.add([192, 0, 2, 0], 24, &country("FR"));
    let new = folder.0.join("new.mmdb");
    std::fs::write(&new, database.bytes()).expect("written");
    std::fs::rename(&new, folder.0.join("a.mmdb")).expect("moved");
}

const VARIABLES: &str = "geoip2 a.mmdb {
    auto_reload 1s;
    $code default=none country iso_code;
    $of_argument source=$arg_ip default=none country iso_code;
    $name country names en; $region subdivisions 1 iso_code; $latitude latitude;
    $anonymous is_anonymous; $population population; $zero 0; $map default=map country;
    $missing country continent; $built metadata build_epoch; $changed metadata last_change;
}";

#[test]
fn values_of_all_kinds_are_found_for_clients_sources_and_proxies() {
    let server = Server::start_in(
        folder("DE"),
        &format!(
            "{VARIABLES} geoip2_proxy 127.0.0.1; geoip2_proxy_recursive on;
             server {{ listen 127.0.0.1:{{port}};
             location /all {{ return 200 '$code|$name|$region|$latitude|$anonymous|$population|$zero|$map|$missing|$built|'; }}
             location / {{ return 200 'code:$code of:$of_argument'; }} }}"
        ),
    );
    let all = server.get("/all", "");
    let wanted = "DE|Somewhere|S1|-1.25000|1|77|zero|map||1700000000|";
    assert!(all.ends_with(wanted), "{all}");
    for (query, of) in [
        ("192.0.2.9", "FR"),
        ("192.0.3.1", "none"),
        ("x", "none"),
        ("::1", "none"),
    ] {
        let got = server.get(&format!("/?ip={query}"), "");
        assert!(got.ends_with(&format!("code:DE of:{of}")), "{query}: {got}");
    }
    for (forwarded, code) in [
        ("192.0.2.1", "FR"),
        ("192.0.2.1, 127.0.0.1", "FR"),
        ("192.0.2.1, 10.0.0.1", "none"),
    ] {
        let got = server.get("/", &format!("X-Forwarded-For: {forwarded}\r\n"));
        assert!(got.contains(&format!("code:{code} ")), "{forwarded}: {got}");
    }
}

#[test]
fn changed_database_is_read_again_and_a_broken_one_is_not() {
    let server = Server::start_in(
        folder("DE"),
        &format!("{VARIABLES} server {{ listen 127.0.0.1:{{port}}; return 200 code:$code; }}"),
    );
    let answers = |s: &Server, code: &str| s.get("/", "").ends_with(&format!("code:{code}"));
    assert!(answers(&server, "DE"));
    write(&server.folder, "AT");
    server.wait_for("the new content", |s| answers(s, "AT"));
    server.folder.write("a.mmdb", "this is no database");
    server.wait_for("the reason", |s| {
        assert!(answers(s, "AT"), "the former content is kept");
        s.log("error.log").contains("failed to reload")
    });
    // The thread that reads does not keep the worker from ending.
    assert!(server.end("QUIT"));
}

#[test]
fn stream_has_variables_of_its_own() {
    let port = free_port();
    let main = format!(
        "stream {{ {VARIABLES} server {{ listen 127.0.0.1:{port}; return $code:$of_argument; }} }}"
    )
    .replace(
        "$of_argument source=$arg_ip",
        "$of_argument source=$server_addr",
    );
    let _server = Server::start_changed(folder("DE"), &main, HTTP);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    assert_eq!(read_all(&mut stream), "DE:DE");
}

#[test]
fn blocks_are_checked() {
    let folder = folder("DE");
    folder.write("broken.mmdb", "\u{fffd}MaxMind.com");
    let path = folder.0.join("a.mmdb").display().to_string();
    for (block, error) in [
        ("geoip2 % { $a country; }", ""),
        (
            "geoip2 /nowhere { $a country; }",
            "MMDB_open(\"/nowhere\") failed - 2: No such file or directory",
        ),
        ("geoip2 / { $a country; }", "failed - not a file"),
        ("geoip2 %/../broken.mmdb { $a country; }", "MMDB_open("),
        ("geoip2 % { a country; }", "invalid variable name \"a\""),
        (
            "geoip2 % { $a source=b country; }",
            "invalid variable name \"b\"",
        ),
        (
            "geoip2 % { $a some=b country; }",
            "invalid setting \"some=b\" for \"$a\"",
        ),
        (
            "geoip2 % { $a default=b; }",
            "no path to a value for \"$a\"",
        ),
        (
            "geoip2 % { $a metadata; }",
            "invalid number of arguments for metadata",
        ),
        (
            "geoip2 % { $a metadata x; }",
            "invalid metadata field \"x\"",
        ),
        (
            "geoip2 % { auto_reload x; }",
            "invalid interval for auto_reload \"x\"",
        ),
        ("geoip2 % { } geoip2 % { }", "duplicate GeoIP2 database"),
        ("geoip2_proxy x;", "invalid network \"x\""),
    ] {
        let block = block.replace('%', &path);
        let (accepted, said) = check(&format!("events {{ }} http {{ {block} }}"));
        let right = accepted == error.is_empty() && said.contains(error);
        assert!(right, "{block}\n{said}");
    }
}

/// Databases come from elsewhere: whatever their bytes are, a value is found or not.
#[test]
fn damaged_databases_do_no_harm() {
    let folder = folder("DE");
    let whole = std::fs::read(folder.0.join("a.mmdb")).expect("a database");
    let path = folder.0.join("bad.mmdb");
    let steps = |words: &[&str]| -> Vec<Step> { words.iter().map(|w| Step::new(w)).collect() };
    let values = [
        steps(&["country", "names", "en"]),
        steps(&["subdivisions", "1", "iso_code"]),
        steps(&["latitude"]),
    ];
    let (mut state, mut opened) = (1u64, 0);
    let mut random = move |below: usize| {
        // A linear congruential generator; its high bits are good enough.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for round in 0..4000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 4 {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        if round % 5 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        std::fs::write(&path, &bytes).expect("written");
        let Ok(database) = gallop_conf::mmdb::Database::open(&path, None) else {
            continue;
        };
        opened += 1;
        for value in &values {
            for address in ["127.0.0.1", "192.0.2.1", "10.0.0.1", "::1"] {
                let address = address.parse().expect("an address");
                let _ = database.value(address, value);
            }
        }
    }
    assert!(opened > 1000, "{opened} of 4000 were databases");
}
