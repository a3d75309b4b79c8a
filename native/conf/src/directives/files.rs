//! Files: root, alias, index, try_files, autoindex, expires, and headers.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::{os_error, Directive};
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_msec, parse_sec};
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("root", HSLI, ONE, root),
    with("alias", LOC, ONE, alias),
    with("index", HSL, MORE, index),
    with("try_files", SRV | LOC, TWO_OR_MORE, try_files),
    simple(
        "autoindex",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().autoindex),
    ),
    simple(
        "autoindex_exact_size",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().autoindex_exact_size),
    ),
    simple(
        "autoindex_localtime",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().autoindex_localtime),
    ),
    with("confine_files", HSL, MORE, confine_files),
    with("autoindex_format", HSL, ONE, |b, d| {
        let choices = &[
            ("html", AutoindexFormat::Html),
            ("json", AutoindexFormat::Json),
            ("jsonp", AutoindexFormat::Jsonp),
            ("xml", AutoindexFormat::Xml),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().autoindex_format, value, d)
    }),
    with("open_file_cache", HSL, Arity(1, 2), open_file_cache),
    simple(
        "open_file_cache_valid",
        HSL,
        ONE,
        Setter::Sec(|b| &mut b.loc().open_file_cache_valid),
    ),
    simple(
        "open_file_cache_min_uses",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().open_file_cache_min_uses),
    ),
    simple(
        "open_file_cache_errors",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().open_file_cache_errors),
    ),
    simple(
        "open_file_cache_events",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().open_file_cache_events),
    ),
    with("expires", HSLI, Arity(1, 2), expires),
    with("add_header", HSLI, Arity(2, 3), |b, d| {
        let header = header(b, d)?;
        push(&mut b.loc().add_header, header);
        Ok(())
    }),
    with("add_trailer", HSLI, Arity(2, 3), |b, d| {
        let header = header(b, d)?;
        push(&mut b.loc().add_trailer, header);
        Ok(())
    }),
    with("add_header_inherit", HSLI, ONE, |b, d| {
        let value = choice(d, &d.args()[0], INHERIT)?;
        store(&mut b.loc().add_header_inherit, value, d)
    }),
    with("add_trailer_inherit", HSLI, ONE, |b, d| {
        let value = choice(d, &d.args()[0], INHERIT)?;
        store(&mut b.loc().add_trailer_inherit, value, d)
    }),
    with("stub_status", SRV | LOC, Arity(0, 1), |b, _| {
        b.node().handler = Some(Handler::StubStatus);
        Ok(())
    }),
    with("empty_gif", LOC, NONE, |b, _| {
        b.node().handler = Some(Handler::EmptyGif);
        Ok(())
    }),
    with("flv", LOC, NONE, |b, _| {
        b.node().handler = Some(Handler::Flv);
        Ok(())
    }),
    with("mp4", LOC, NONE, |b, _| {
        b.node().handler = Some(Handler::Mp4);
        Ok(())
    }),
    simple(
        "mp4_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().mp4_buffer_size),
    ),
    simple(
        "mp4_max_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().mp4_max_buffer_size),
    ),
    simple(
        "mp4_start_key_frame",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().mp4_start_key_frame),
    ),
];

/// `add_header_inherit`: 0 replaces (nginx's default), 1 drops, 2 merges.
const INHERIT: &[(&str, u32)] = &[("on", 0), ("off", 1), ("merge", 2)];

fn root(b: &mut Builder, d: &Directive) -> Result<()> {
    if let Some(set) = &b.loc().root {
        let which = if set.alias.is_some() { "alias" } else { "root" };
        return Err(if which == "root" {
            duplicate(d)
        } else {
            ConfError::new(
                "\"root\" directive is duplicate, \"alias\" directive was specified earlier",
            )
        });
    }
    let text = d.args()[0].as_str();
    let text = if text.len() > 1 {
        text.trim_end_matches('/')
    } else {
        text
    };
    if text.contains("$document_root") || text.contains("${document_root}") {
        return Err(ConfError::new(
            "the $document_root variable cannot be used in the \"root\" directive",
        ));
    }
    let base = b.prefix.clone();
    let path = b.path_template(if text == "/" { "" } else { text }, &base, &d.place)?;
    b.loc().root = Some(Arc::new(Root { path, alias: None }));
    Ok(())
}

fn alias(b: &mut Builder, d: &Directive) -> Result<()> {
    if let Some(set) = &b.loc().root {
        return Err(if set.alias.is_some() {
            duplicate(d)
        } else {
            ConfError::new(
                "\"alias\" directive is duplicate, \"root\" directive was specified earlier",
            )
        });
    }
    let (kind, len) = (b.node().kind.clone(), b.node().name.len());
    let alias = match kind {
        LocKind::Named => {
            return Err(ConfError::new(
                "the \"alias\" directive cannot be used inside the named location",
            ));
        }
        LocKind::Regex(_) => Alias::Whole,
        _ => Alias::Prefix(len),
    };
    let base = b.prefix.clone();
    let path = b.path_template(&d.args()[0], &base, &d.place)?;
    b.loc().root = Some(Arc::new(Root {
        path,
        alias: Some(alias),
    }));
    Ok(())
}

fn index(b: &mut Builder, d: &Directive) -> Result<()> {
    let last = d.args().len() - 1;
    for (i, word) in d.args().iter().enumerate() {
        if word.starts_with('/') && i != last {
            b.warn(
                "only the last index in \"index\" directive should be absolute",
                &d.place,
            );
        }
        if word.is_empty() {
            return Err(ConfError::new(
                "index \"\" in \"index\" directive is invalid",
            ));
        }
        let item = b.template(word, &d.place)?;
        push(&mut b.loc().index, item);
    }
    Ok(())
}

fn confine_files(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut confinement = Confinement::default();
    let is_off = matches!(d.args(), [word] if word == "off");
    for word in d.args().iter().filter(|_| !is_off) {
        confinement.folders.push(confined_folder(b, d, word)?);
    }
    store(&mut b.loc().confine_files, Arc::new(confinement), d)
}

/// Add a folder. A missing one is a warning, since a site may be configured before its files exist.
fn confined_folder(b: &mut Builder, d: &Directive, word: &str) -> Result<ConfinedFolder> {
    if word == "off" {
        return Err(ConfError::new(
            "\"confine_files\" takes either \"off\" or folders; write \"./off\" for a folder of that name",
        ));
    }
    if word.is_empty() {
        return Err(ConfError::new(
            "empty folder name in \"confine_files\" directive",
        ));
    }
    if word.contains('$') {
        return Err(ConfError::new(format!(
            "variables are not allowed in \"confine_files\", found in \"{word}\""
        )));
    }
    let (folder, opened) = ConfinedFolder::open(&b.prefix.join(word));
    if let Err(e) = opened {
        let message = format!(
            "open() \"{}\" failed ({}), \"confine_files\" allows no file beneath it until it exists",
            folder.path.display(),
            os_error(&e)
        );
        b.warn(message, &d.place);
    }
    Ok(folder)
}

fn try_files(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.node().try_files.is_some() {
        return Err(duplicate(d));
    }
    let (last, words) = d.args().split_last().expect("arity checked");
    let mut files = Vec::new();
    for word in words {
        let test_dir = word.ends_with('/') && word.len() > 1;
        let text = if test_dir {
            &word[..word.len() - 1]
        } else {
            word
        };
        files.push(TryFile {
            path: b.template(text, &d.place)?,
            test_dir,
        });
    }
    let fallback = match last.strip_prefix('=') {
        Some(code) => match parse_digits(code).filter(|&c| c <= 999) {
            Some(code) => Fallback::Status(code as u16),
            None => return Err(ConfError::new(format!("invalid code \"{last}\""))),
        },
        None if last.starts_with('@') => Fallback::Named(last.clone()),
        None => Fallback::Uri(b.template(last, &d.place)?),
    };
    b.node().try_files = Some(Arc::new(TryFiles { files, fallback }));
    Ok(())
}

fn open_file_cache(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut cache = OpenFileCache {
        max: 0,
        inactive: 60_000,
    };
    let mut off = false;
    for word in d.args() {
        let invalid =
            || ConfError::new(format!("invalid \"open_file_cache\" parameter \"{word}\""));
        match word.split_once('=') {
            Some(("max", n)) => {
                cache.max = parse_digits(n).filter(|&n| n > 0).ok_or_else(invalid)?;
            }
            Some(("inactive", t)) => cache.inactive = parse_msec(t).ok_or_else(invalid)?,
            None if word == "off" => off = true,
            _ => return Err(invalid()),
        }
    }
    if off {
        return store(&mut b.loc().open_file_cache, None, d);
    }
    if cache.max == 0 {
        return Err(ConfError::new(
            "\"open_file_cache\" must have the \"max\" parameter",
        ));
    }
    store(&mut b.loc().open_file_cache, Some(cache), d)
}

fn expires(b: &mut Builder, d: &Directive) -> Result<()> {
    let (modified, word) = match d.args() {
        [m, word] if m == "modified" => (true, word),
        [word] => (false, word),
        _ => return Err(invalid_value(d)),
    };
    let value = if word.contains('$') {
        Expires::Variable {
            value: b.template(word, &d.place)?,
            modified,
        }
    } else {
        parse_expires(word, modified).ok_or_else(|| invalid_value(d))?
    };
    store(&mut b.loc().expires, value, d)
}

/// Parse a value of `expires`, including one from a variable.
pub fn parse_expires(word: &str, modified: bool) -> Option<Expires> {
    match word {
        "off" if !modified => return Some(Expires::Off),
        "epoch" if !modified => return Some(Expires::Epoch),
        "max" if !modified => return Some(Expires::Max),
        _ => {}
    }
    if let Some(daily) = word.strip_prefix('@') {
        let sec = parse_sec(daily).filter(|&s| s < 86_400 && !modified)?;
        return Some(Expires::Daily(sec as i64));
    }
    let (negative, time) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let sec = parse_sec(time)? as i64;
    let sec = if negative { -sec } else { sec };
    Some(if modified {
        Expires::Modified(sec)
    } else {
        Expires::Access(sec)
    })
}

fn header(b: &mut Builder, d: &Directive) -> Result<AddHeader> {
    let args = d.args();
    let always = match args.get(2).map(String::as_str) {
        None => false,
        Some("always") => true,
        Some(other) => return Err(ConfError::new(format!("invalid parameter \"{other}\""))),
    };
    Ok(AddHeader {
        name: args[0].clone(),
        value: b.template(&args[1], &d.place)?,
        always,
    })
}
