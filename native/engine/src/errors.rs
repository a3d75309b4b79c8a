//! Error responses: error_page, and nginx's built-in pages.

use crate::body::Body;
use crate::exchange::{Exchange, Response};
use crate::upstream::answer::split_charset;
use crate::{status, template, PRODUCT, PRODUCT_VERSION};
use gallop_conf::model::{items, ErrorPage, Tokens};

pub enum Page {
    Answered,
    Close,
    Internal { uri: Vec<u8>, args: Option<Vec<u8>> },
    Named(String),
}

/// Choose the page for a status.
pub fn page(ex: &mut Exchange, code: u16) -> Page {
    // With these statuses no client waits for a response.
    if matches!(code, 408 | 444 | 499) {
        ex.response.status = code;
        return Page::Close;
    }
    if matches!(code, 400 | 413 | 414 | 495..=497 | 500 | 501) {
        ex.keepalive = false;
    }
    // After a malformed request, lingering lasts only until the response is sent.
    if code == 400 || (495..=497).contains(&code) {
        ex.lingering = false;
    }
    ex.error_status = code;
    let carried_type = ex.carried_type.take();
    // Error pages do not support ranges.
    ex.carried
        .retain(|(name, _)| !name.eq_ignore_ascii_case(b"accept-ranges"));
    let location = ex.response.location.take();
    let keep: Vec<_> = std::mem::take(&mut ex.response.headers)
        .into_iter()
        .filter(|(n, _)| {
            n.eq_ignore_ascii_case(b"www-authenticate") || n.eq_ignore_ascii_case(b"content-range")
        })
        .collect();
    ex.response = Response {
        headers: keep,
        location,
        // As in nginx, the page has the charset of the response that led to it.
        charset: carried_type.and_then(|kind| split_charset(&kind).1.map(<[u8]>::to_vec)),
        ..Response::default()
    };
    if !ex.error_page {
        let loc = ex.loc.clone();
        if !loc.conf.recursive_error_pages.unwrap_or(false) {
            ex.error_page = true;
        }
        let pages = items(&loc.conf.error_pages);
        if let Some(page) = pages.iter().find(|p| p.statuses.contains(&code)) {
            return send_page(ex, page, code);
        }
    }
    builtin(ex, code)
}

fn send_page(ex: &mut Exchange, page: &ErrorPage, code: u16) -> Page {
    if let Some(status) = page.overwrite {
        ex.error_status = status;
    }
    let target = template::eval(ex, &page.target);
    if target.first() == Some(&b'@') {
        return Page::Named(String::from_utf8_lossy(&target).into_owned());
    }
    if target.first() == Some(&b'/') {
        let split = memchr::memchr(b'?', &target);
        let (uri, args) = match split {
            Some(i) => (target[..i].to_vec(), Some(target[i + 1..].to_vec())),
            // A page without arguments of its own does not get the request's arguments. As in
            // nginx, a target with variables is split only now, and then has (possibly empty)
            // arguments.
            None => (target, page.target.as_literal().is_none().then(Vec::new)),
        };
        if ex.head.method() != b"HEAD" {
            let method = ex.head.store(b"GET");
            ex.head.method = method;
        }
        return Page::Internal { uri, args };
    }
    let status = page.overwrite.unwrap_or(code);
    let status = if matches!(status, 301 | 302 | 303 | 307 | 308) {
        status
    } else {
        302
    };
    ex.error_status = status;
    ex.response.location = Some(target);
    builtin(ex, status)
}

/// The product name in the `Server` field and on pages.
pub fn product(ex: &Exchange) -> Vec<u8> {
    let conf = &ex.loc.conf;
    let full = match &conf.server_header {
        Some(name) => name.to_vec(),
        None => PRODUCT_VERSION.into(),
    };
    match conf.server_tokens.unwrap_or(Tokens::On) {
        Tokens::Off => full
            .split(|&c| c == b'/')
            .next()
            .unwrap_or(PRODUCT.as_bytes())
            .to_vec(),
        Tokens::On | Tokens::Build => full,
    }
}

fn builtin(ex: &mut Exchange, code: u16) -> Page {
    let shown = match code {
        494..=497 => 400,
        c => c,
    };
    if ex.error_status == code {
        ex.error_status = shown;
    }
    ex.response.status = shown;
    if matches!(code, 301 | 302) && ex.loc.conf.msie_refresh == Some(true) && is_msie(ex) {
        return refresh(ex);
    }
    let Some(title) = status::page_title(code) else {
        // Statuses without a page have no body.
        ex.response.content_length = if code == 204 { None } else { Some(0) };
        return Page::Answered;
    };
    let mut html = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    )
    .into_bytes();
    if (494..=497).contains(&code) {
        html = special_page("400 Bad Request", &title);
    }
    html.extend_from_slice(b"<hr><center>");
    html.extend_from_slice(&product(ex));
    html.extend_from_slice(b"</center>\r\n</body>\r\n</html>\r\n");
    if ex.loc.conf.msie_padding.unwrap_or(true) && code >= 400 && is_old_browser(ex) {
        for _ in 0..6 {
            html.extend_from_slice(
                b"<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
            );
        }
    }
    ex.response.content_type = Some(b"text/html".to_vec());
    ex.response.content_length = Some(html.len() as u64);
    ex.response.body = Body::bytes(html);
    ex.response.filterable = true;
    Page::Answered
}

/// A page with a refresh, for browsers that lose cookies on redirects.
fn refresh(ex: &mut Exchange) -> Page {
    let target = ex.response.location.take().unwrap_or_default();
    let mut html = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    crate::escape::escape(&target, crate::escape::Use::Refresh, &mut html);
    html.extend_from_slice(b"\"></head><body></body></html>\r\n");
    ex.error_status = 200;
    ex.response.status = 200;
    ex.response.content_type = Some(b"text/html".to_vec());
    ex.response.content_length = Some(html.len() as u64);
    ex.response.body = Body::bytes(html);
    Page::Answered
}

fn is_msie(ex: &Exchange) -> bool {
    said(ex, b"MSIE ") && !said(ex, b"Opera")
}

/// A page whose title says more than its heading.
fn special_page(heading: &str, title: &str) -> Vec<u8> {
    let detail = title.strip_prefix("400 ").unwrap_or(title);
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n<center>{detail}</center>\r\n"
    )
    .into_bytes()
}

fn is_old_browser(ex: &Exchange) -> bool {
    is_msie(ex) || said(ex, b"Chrome/")
}

/// Whether the `User-Agent` contains a text.
fn said(ex: &Exchange, needle: &[u8]) -> bool {
    let mut agents = ex.head.get_all("user-agent");
    agents.any(|agent| memchr::memmem::find(agent, needle).is_some())
}
