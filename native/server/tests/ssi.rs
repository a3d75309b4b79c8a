//! Server Side Includes in the real binary.

use crate::site::{Folder, Server};

fn server(pages: &[(&str, &str)]) -> Server {
    let folder = Folder::new();
    folder.write("html/a.html", "<A>");
    folder.write("html/b.html", "<B>");
    folder.write("html/empty.html", "");
    for (name, text) in pages {
        folder.write(&format!("html/{name}.html"), text);
    }
    Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; server_name localhost; root html; ssi on;
             subrequest_output_buffer_size 100; set $colour red;
             location /none/ { return 204; } location /bad { return 404 bad; } location /gone/ { error_page 404 =200 /b.html; } }",
    )
}

/// The page as HTTP/1.0 gets it: without framing.
fn page(server: &Server, uri: &str) -> String {
    let answer = server.raw(&format!("GET {uri} HTTP/1.0\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(
        !head.contains("Last-Modified") && !head.contains("Content-Length"),
        "{head}"
    );
    body.to_string()
}

#[test]
fn ssi_includes_appear_in_order() {
    let server = server(&[
        (
            "page",
            "1<!--#include virtual=\"/a.html\" -->2<!--# include file='b.html' -->3",
        ),
        (
            "nested",
            "(<!--#include virtual=\"page.html\" wait=\"yes\" -->)",
        ),
        ("gone", "[<!--#include virtual=\"/nothing\" -->]"),
        ("out", "[<!--#include virtual=\"/../etc/passwd\" -->]"),
    ]);
    assert_eq!(page(&server, "/page.html"), "1<A>2<B>3");
    assert_eq!(page(&server, "/nested.html"), "(1<A>2<B>3)");
    assert!(page(&server, "/gone.html").contains("404 Not Found"));
    let refused = page(&server, "/out.html");
    assert_eq!(
        refused,
        "[[an error occurred while processing the directive]]"
    );
}

#[test]
fn recursive_ssi_include_ends() {
    let server = server(&[("loop", "x<!--#include virtual=\"/loop.html\" -->")]);
    let text = page(&server, "/loop.html");
    assert!(text.starts_with("xxxx") && text.len() < 200, "{text}");
    assert!(server.log("error.log").contains("subrequests cycle"));
}

#[test]
fn ssi_variables_are_set_echoed_and_compared() {
    let server = server(&[
        (
            "echo",
            "<!--#set var=\"x\" value=\"<$arg_a>\" --><!--#echo var=\"x\" -->,\
             <!--#echo var='x' encoding='none' -->,<!--#echo var='nobody' -->,\
             <!--#echo var='nobody' default='-' -->,<!--#echo var='colour' -->",
        ),
        (
            "if",
            "<!--#if expr=\"$arg_a = one\" -->1<!--#elif expr='$arg_a = /^t(.*)/' -->\
             2<!--#echo var='1' --><!--#if expr='$arg_b' -->b<!--#else -->nb<!--#endif -->\
             <!--#else -->3<!--#endif -->",
        ),
        (
            "time",
            "<!--#config timefmt=\"%Y!\" errmsg=\"ouch\" --><!--#echo var=\"date_gmt\" --><!--#bad x -->",
        ),
    ]);
    assert_eq!(
        page(&server, "/echo.html?a=b"),
        "&lt;b&gt;,<b>,(none),-,red"
    );
    assert_eq!(page(&server, "/if.html?a=one"), "1");
    assert_eq!(page(&server, "/if.html?a=two"), "2wonb");
    assert_eq!(page(&server, "/if.html?a=two&b=1"), "2wob");
    assert_eq!(page(&server, "/if.html"), "3");
    let time = page(&server, "/time.html");
    let (year, rest) = time.split_once('!').expect("a year");
    assert!(year.parse::<u32>().is_ok_and(|y| y > 2000), "{time}");
    assert_eq!(rest, "ouch");
}

/// What becomes a variable is made without subrequests, as in nginx: else a page that sets itself would never fit.
#[test]
fn ssi_page_captured_as_variable_includes_nothing() {
    let server = server(&[(
        "loop",
        "x<!--#include virtual=\"/loop.html\" set=\"own\" -->(<!--#echo var=\"own\" encoding=\"none\" -->)",
    )]);
    let error = "[an error occurred while processing the directive]";
    assert_eq!(page(&server, "/loop.html"), format!("x(x{error}())"));
    assert!(server.log("error.log").contains("nested in-memory"));
}

#[test]
fn ssi_blocks_and_variables_capture_responses() {
    let server = server(&[
        (
            "stub",
            "<!--#block name=\"none\" -->[<!--#echo var=\"colour\" -->]<!--#endblock -->\
             <!--#include virtual=\"/empty.html\" stub=\"none\" -->.\
             <!--#include virtual=\"/a.html\" stub=\"none\" -->.\
             <!--#include virtual=\"/gone/x\" stub=\"none\" -->",
        ),
        (
            "set",
            "<!--#include virtual=\"/a.html\" set=\"answer\" -->\
             (<!--#echo var=\"answer\" encoding=\"none\" -->)",
        ),
        (
            "errors",
            "<!--#set var=\"kept\" value=\"k\" --><!--#include virtual=\"/bad\" set=\"kept\" -->\
             <!--#include virtual=\"/bad\" set=\"new\" --><!--#include virtual=\"/gone/x\" set=\"page\" -->\
             [<!--#echo var=\"kept\" -->][<!--#echo var=\"new\" -->][<!--#echo var=\"page\" encoding=\"none\" -->]",
        ),
        ("big", &"x".repeat(200)),
        (
            "too_big",
            "<!--#include virtual=\"/big.html\" set=\"answer\" -->(<!--#echo var=\"answer\" -->)",
        ),
    ]);
    // Nor has an error an answer there, whatever page would stand for it.
    assert_eq!(page(&server, "/stub.html"), "[red].<A>.[red]");
    assert_eq!(page(&server, "/set.html"), "(<A>)");
    // What an error says is nobody's value, but for a page that makes another status of it.
    assert_eq!(page(&server, "/errors.html"), "[k][][<B>]");
    // As nginx, nothing is sent: the page would not be what its author wrote.
    assert_eq!(server.raw("GET /too_big.html HTTP/1.0\r\n\r\n"), "");
    assert!(server
        .log("error.log")
        .contains("too big subrequest response"));
}

#[test]
fn ssi_encoding_applies_to_later_echoes() {
    let echo = |more: &str| format!("<!--#echo var=\"arg_q\" default=\"(<'>)\"{more} -->");
    let text = [
        echo(""),
        echo(" encoding=\"url\""),
        echo(""),
        echo(" encoding=\"none\""),
    ];
    let server = server(&[("page", &text.join(" "))]);
    assert_eq!(
        page(&server, "/page.html"),
        "(&lt;'&gt;) (%3C%27%3E) (%3C%27%3E) (<'>)"
    );
}

#[test]
fn contradicting_ssi_includes_are_errors() {
    let server = server(&[(
        "page",
        "<!--#config errmsg=\"[bad]\" --><!--#include file=\"a.html\" wait=\"yes\" -->\
         <!--#include file=\"a.html\" virtual=\"/a.html\" -->\
         <!--#include virtual=\"/a.html\" wait=\"maybe\" --><!--#include virtual=\"/a.html\" wait=\"no\" -->",
    )]);
    assert_eq!(page(&server, "/page.html"), "[bad][bad][bad]<A>");
}
