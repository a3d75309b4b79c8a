//! Directory listings.

use super::static_files::{open_status, request_path};
use crate::body::Body;
use crate::escape::{self, escaped, Use};
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::phases::flow::Flow;
use crate::time;
use crate::vars::argument;
use gallop_conf::model::{AutoindexFormat, Level};
use std::os::unix::fs::MetadataExt;

struct Entry {
    name: Vec<u8>,
    folder: bool,
    file: bool,
    size: u64,
    mtime: i64,
}

/// List the folder if this is allowed.
pub fn list(ex: &mut Exchange) -> Flow {
    if ex.loc.conf.autoindex != Some(true) || !matches!(ex.method(), b"GET" | b"HEAD") {
        if !matches!(ex.method(), b"GET" | b"HEAD" | b"POST") {
            return Flow::Status(405);
        }
        let path = match request_path(ex) {
            Ok(path) => path,
            Err(flow) => return flow,
        };
        ex.log(
            Level::Error,
            &format!("directory index of \"{}\" is forbidden", path.display()),
        );
        return Flow::Status(403);
    }
    let path = match request_path(ex) {
        Ok(path) => path,
        Err(flow) => return flow,
    };
    let mut entries = match read(ex, &path) {
        Ok(entries) => entries,
        Err(e) => {
            let (status, level) = open_status(&e);
            let words = gallop_conf::parser::os_error(&e);
            ex.log(
                level,
                &format!("opendir() \"{}\" failed ({words})", path.display()),
            );
            return Flow::Status(status);
        }
    };
    entries.sort_by(|a, b| b.folder.cmp(&a.folder).then_with(|| a.name.cmp(&b.name)));
    let format = ex
        .loc
        .conf
        .autoindex_format
        .unwrap_or(AutoindexFormat::Html);
    let (kind, text) = match format {
        AutoindexFormat::Html => ("text/html", html(ex, &entries)),
        AutoindexFormat::Xml => ("text/xml", xml(&entries)),
        AutoindexFormat::Json => ("application/json", json(&entries)),
        AutoindexFormat::Jsonp => match callback(ex) {
            Err(()) => return Flow::Status(400),
            Ok(None) => ("application/json", json(&entries)),
            Ok(Some(name)) => {
                let text = [
                    b"/* callback */\r\n",
                    &name[..],
                    b"(",
                    &json(&entries),
                    b");",
                ]
                .concat();
                ("application/javascript", text)
            }
        },
    };
    ex.response.status = 200;
    ex.response.content_type = Some(kind.into());
    if format == AutoindexFormat::Xml {
        ex.response.charset = Some(b"utf-8".to_vec());
    }
    ex.response.body = Body::bytes(text);
    ex.response.filterable = true;
    Flow::Done
}

fn read(ex: &Exchange, path: &FilePath) -> std::io::Result<Vec<Entry>> {
    let found = files::list(ex, path)?.into_iter();
    let entries = found.map(|entry| Entry {
        folder: entry.meta.is_dir(),
        file: entry.meta.is_file(),
        size: entry.meta.size(),
        mtime: entry.meta.mtime(),
        name: entry.name,
    });
    Ok(entries.collect())
}

/// Longer names are shortened, as in nginx.
const NAME_WIDTH: usize = 50;

fn html(ex: &Exchange, entries: &[Entry]) -> Vec<u8> {
    let mut out = b"<html>\r\n<head><title>Index of ".to_vec();
    escape::html(&ex.uri.path, &mut out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape::html(&ex.uri.path, &mut out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for e in entries {
        html_entry(ex, e, &mut out);
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    out
}

/// Whether the page is sent as UTF-8, by `charset`.
fn is_utf8(ex: &Exchange) -> bool {
    let name = ex.loc.conf.charset.as_ref().and_then(|c| c.0.as_ref());
    let name = name.and_then(|name| name.as_literal());
    name.is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8"))
}

fn html_entry(ex: &Exchange, e: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<a href=\"");
    let mut href = escaped(&e.name, Use::Component);
    if e.name.contains(&b':') {
        // Without `./`, a colon would make the name look like a scheme.
        href.splice(0..0, *b"./");
    }
    out.extend_from_slice(&href);
    let slash: &[u8] = if e.folder { b"/" } else { b"" };
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    // Count characters if the page is UTF-8, otherwise bytes.
    let text = std::str::from_utf8(&e.name).ok().filter(|_| is_utf8(ex));
    let letters = text.map_or(e.name.len(), |text| text.chars().count());
    let width = letters + slash.len();
    if width > NAME_WIDTH {
        let fits = NAME_WIDTH - 3;
        let cut = text.map_or(fits, |text| {
            text.chars().take(fits).map(char::len_utf8).sum()
        });
        escape::html(&e.name[..cut], out);
        out.extend_from_slice(b"..&gt;</a>");
    } else {
        escape::html(&e.name, out);
        out.extend_from_slice(slash);
        out.extend_from_slice(b"</a>");
        out.resize(out.len() + NAME_WIDTH - width, b' ');
    }
    out.push(b' ');
    let offset = if ex.loc.conf.autoindex_localtime == Some(true) {
        time::zone_offset(e.mtime)
    } else {
        0
    };
    out.extend_from_slice(time::listing_date(e.mtime + offset).as_bytes());
    let is_exact = ex.loc.conf.autoindex_exact_size != Some(false);
    let size = match (e.folder, is_exact) {
        (true, _) => "-".to_owned(),
        (false, true) => e.size.to_string(),
        (false, false) => rounded(e.size),
    };
    let width = if is_exact { 19 } else { 7 };
    out.extend_from_slice(format!(" {size:>width$}\r\n").as_bytes());
}

fn rounded(size: u64) -> String {
    let round = |unit: u64| (size + unit / 2) / unit;
    match size {
        0..=9999 => size.to_string(),
        10_000..0x10_0000 => format!("{}K", round(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{}M", round(1 << 20)),
        _ => format!("{}G", round(1 << 30)),
    }
}

fn kind(e: &Entry) -> &'static str {
    if e.folder {
        "directory"
    } else if e.file {
        "file"
    } else {
        "other"
    }
}

fn json(entries: &[Entry]) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (i, e) in entries.iter().enumerate() {
        out.extend_from_slice(if i == 0 {
            b"\r\n{ \"name\":\""
        } else {
            b",\r\n{ \"name\":\""
        });
        escape::json(&e.name, &mut out);
        let date = time::http_date(e.mtime);
        out.extend_from_slice(
            format!("\", \"type\":\"{}\", \"mtime\":\"{date}\"", kind(e)).as_bytes(),
        );
        if e.file {
            out.extend_from_slice(format!(", \"size\":{}", e.size).as_bytes());
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    out
}

fn xml(entries: &[Entry]) -> Vec<u8> {
    let mut out = b"<?xml version=\"1.0\"?>\r\n<list>\r\n".to_vec();
    for e in entries {
        let c = time::iso_date(e.mtime, 0).replace("+00:00", "Z");
        out.extend_from_slice(format!("<{} mtime=\"{c}\"", kind(e)).as_bytes());
        if e.file {
            out.extend_from_slice(format!(" size=\"{}\"", e.size).as_bytes());
        }
        out.push(b'>');
        escape::html(&e.name, &mut out);
        out.extend_from_slice(format!("</{}>\r\n", kind(e)).as_bytes());
    }
    out.extend_from_slice(b"</list>\r\n");
    out
}

/// The `callback` argument; an error unless it is a plain name.
fn callback(ex: &Exchange) -> Result<Option<Vec<u8>>, ()> {
    let Some(text) = argument(&ex.uri.args, "callback").filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let text = escape::unescape(text);
    let plain = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.');
    if text.iter().all(plain) {
        Ok(Some(text))
    } else {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_nginx_rounds_them() {
        for (size, text) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10K"),
            ((1 << 20) - 1, "1024K"),
            (1 << 20, "1M"),
            (2 << 20, "2M"),
            ((1 << 30) - 1, "1024M"),
            (3 << 30, "3G"),
        ] {
            assert_eq!(rounded(size), text);
        }
    }
}
