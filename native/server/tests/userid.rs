//! userid: the cookie that tells visitors apart, and its variables.

use crate::h2;
use crate::site::{self, Server};

/// The value of the only `Set-Cookie` field, empty without one.
fn cookie(response: &str) -> String {
    let mut lines = response.lines();
    let value = lines.find_map(|line| line.strip_prefix("Set-Cookie: "));
    assert!(
        lines.all(|line| !line.starts_with("Set-Cookie")),
        "{response}"
    );
    value.unwrap_or_default().to_owned()
}

fn server() -> Server {
    Server::start(
        "map $arg_reset $uid_reset { default 0; ~. $arg_reset; } log_format ids '$uri $uid_got|$uid_set';
         server { listen 127.0.0.1:{port}; http2 on; userid on; access_log ids.log ids; error_log error.log notice;
             ssi_types text/plain; default_type text/plain;
             location / { return 200 \"$uid_got|$uid_set\"; }
             location /all { userid_name v; userid_domain a.test; userid_path /p; userid_expires max;
                 userid_flags secure httponly samesite=lax; userid_p3p 'policyref=\"x\"'; return 200; }
             location /later { userid_expires 1h; return 200; }
             location /service { userid_service 258; return 200 $uid_set; }
             location /first { userid v1; userid_service 7; return 200 $uid_set; }
             location /marked { userid_mark 9; return 200 $uid_set; }
             location /log { userid log; return 200 \"$uid_got|$uid_set\"; }
             location /off { userid off; return 200 \"$uid_got|$uid_set\"; }
             location /error { error_page 404 /made; return 404; }
             location /made { return 200 x; }
             location /page { ssi on; alias html/page.shtml; }
             location = /inner { return 200 $uid_set; } }",
    )
}

#[test]
fn visitors_get_a_cookie_once() {
    let server = server();
    let first = server.get("/", "");
    let set = cookie(&first);
    let value = set.strip_suffix("; path=/").expect("the usual path");
    assert!(value.starts_with("uid=") && value.len() == 28, "{set}");
    let again = server.get("/", &format!("Cookie: a=b; UID = {}\r\n", &value[4..]));
    assert_eq!(cookie(&again), "");
    let id = |response: &str| response.rsplit('|').next().unwrap_or_default().to_owned();
    let given = id(&first);
    assert!(
        given.starts_with("uid=0100007F") && given.len() == 36,
        "{given}"
    );
    assert!(again.ends_with(&format!("\r\n\r\n{given}|")), "{again}");
    // Every visitor gets another one.
    assert_ne!(id(&server.get("/", "")), given);
    server.wait_for("the log", |s| {
        s.log("ids.log").contains(&format!("/ -|{given}\n"))
    });
    server.wait_for("the log", |s| {
        s.log("ids.log").contains(&format!("/ {given}|-\n"))
    });
    let mut client = h2::Client::new(server.port);
    client.send(&h2::get(1, "/later"));
    let head = std::iter::from_fn(|| client.next()).find(|f| f.kind == h2::HEADERS);
    let fields = client.fields(&head.expect("a head"));
    let is_cookie = |(name, _): &&(String, String)| name == "set-cookie";
    let (_, value) = fields.iter().find(is_cookie).expect("a cookie");
    assert!(
        value.contains("==; expires=") && value.ends_with(" GMT; path=/"),
        "{value}"
    );
}

#[test]
fn cookie_has_configured_attributes() {
    let server = server();
    let all = server.get("/all", "");
    let value = cookie(&all);
    let rest = "; expires=Thu, 31-Dec-37 23:55:55 GMT; domain=a.test; path=/p; secure; httponly; samesite=lax";
    assert!(value.starts_with("v=") && value.ends_with(rest), "{value}");
    assert!(all.contains("\r\nP3P: policyref=\"x\"\r\n"), "{all}");
    assert!(server.get("/service", "").contains("uid=02010000"));
    let first = server.get("/first", "");
    assert!(first.contains("uid=00000007"), "{first}");
    assert!(!cookie(&server.get("/error", "")).is_empty());
    for path in ["/log", "/off"] {
        let response = server.get(path, "");
        assert_eq!(cookie(&response), "", "{path}");
        assert!(response.ends_with("\r\n\r\n|"), "{response}");
    }
}

#[test]
fn marked_and_reset_cookies_are_sent_again() {
    let server = server();
    let set = cookie(&server.get("/marked", ""));
    let value = set.split(';').next().expect("a value").to_owned();
    assert!(value.ends_with("9="), "{value}");
    let with = |path: &str, value: &str| server.get(path, &format!("Cookie: {value}\r\n"));
    assert_eq!(cookie(&with("/marked", &value)), "");
    let other = value.replace("9=", "==");
    assert_eq!(cookie(&with("/marked", &other)), set);
    assert_eq!(cookie(&with("/?reset=0", &other)), "");
    let reset = cookie(&with("/?reset=1", &other));
    assert!(!reset.is_empty() && !reset.starts_with(&other), "{reset}");
    with("/?reset=log", &other);
    server.wait_for("the line", |s| s.log("error.log").contains("\" was reset"));
}

#[test]
fn invalid_cookies_are_replaced() {
    let server = server();
    for (value, logged) in [
        (
            "uid=short",
            "client sent too short userid cookie \"uid=short\"",
        ),
        (
            "uid=!!!!!!!!!!!!!!!!!!!!!!",
            "client sent invalid userid cookie",
        ),
        ("uid=", "client sent too short userid cookie \"uid=\""),
        // The last number of a valid id is not 0.
        ("uid=AAAAAAAAAAAAAAAAAAAAAA==", ""),
        ("other=x", ""),
    ] {
        let response = server.get("/", &format!("Cookie: {value}\r\n"));
        assert!(cookie(&response).starts_with("uid="), "{value}: {response}");
        assert!(response.contains("\r\n\r\n|uid="), "{value}: {response}");
        server.wait_for(logged, |s| s.log("error.log").contains(logged));
    }
    let many = "uid=A; ".repeat(500);
    assert!(!cookie(&server.get("/", &format!("Cookie: {many}\r\n"))).is_empty());
    site::assert_no_panic(&server.log("error.log"));
}

#[test]
fn subrequests_have_the_id_of_their_request() {
    let server = server();
    let page = "<!--# include virtual=\"/inner\" -->|<!--# echo var=\"uid_set\" -->";
    server.folder.write("html/page.shtml", page);
    let response = server.get("/page", "");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    let (inner, own) = body.split_once('|').expect("two ids");
    assert!(inner.contains("uid=") && own.contains("uid="), "{response}");
    let ids = |text: &str| text[text.find("uid=").expect("an id")..][..36].to_owned();
    assert_eq!(ids(inner), ids(own));
    assert_eq!(head.matches("Set-Cookie").count(), 1, "{response}");
}

#[test]
fn directives_of_userid_are_checked() {
    for (line, error) in [
        ("userid maybe;", "invalid value \"maybe\""),
        (
            "userid on; userid off;",
            "\"userid\" directive is duplicate",
        ),
        (
            "userid_mark ab;",
            "value must be \"off\" or a single letter, digit or \"=\"",
        ),
        ("userid_expires never;", "invalid value"),
        ("userid_flags strange;", "invalid value \"strange\""),
        ("userid_mark off; userid_domain none; userid_p3p none;", ""),
    ] {
        let text = format!(
            "events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:1; {line} }} }}"
        );
        let (is_valid, said) = site::check(&text);
        assert_eq!(is_valid, error.is_empty(), "{line}: {said}");
        assert!(said.contains(error), "{line}: {said}");
    }
}
