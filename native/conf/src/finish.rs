//! Reading a whole configuration: parse it, apply its directives, and assemble its blocks.

use crate::builder::Builder;
use crate::error::{ConfError, Result, COMMAND_LINE};
use crate::model::*;
use crate::parser::{self, Directive, Source, SourceFile};
use std::path::Path;

mod health;
mod http;
mod listeners;
mod location;
mod server;
mod settings;
mod stream;
mod upstreams;
mod zones;

/// Information about a configuration that is available even if it is rejected.
#[derive(Default)]
pub struct Seen {
    /// All files that were read.
    pub files: Vec<SourceFile>,
    /// Warnings from before the error.
    pub warnings: Vec<String>,
}

/// Load `file`; `globals` is the argument of `-g`.
pub fn load(prefix: &Path, file: &Path, globals: &str, seen: &mut Seen) -> Result<Config> {
    read(prefix, file, globals, seen).map(|(config, _)| config)
}

/// Like [`load`], with remarks about known mistakes.
pub fn load_with_remarks(
    prefix: &Path,
    file: &Path,
    globals: &str,
    seen: &mut Seen,
) -> Result<(Config, Vec<String>)> {
    let (config, directives) = read(prefix, file, globals, seen)?;
    let remarks = crate::lint::remarks(&directives);
    Ok((config, remarks))
}

fn read(
    prefix: &Path,
    file: &Path,
    globals: &str,
    seen: &mut Seen,
) -> Result<(Config, Vec<Directive>)> {
    let conf_prefix = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut b = Builder::new(prefix, &conf_prefix);
    if !globals.is_empty() {
        let directives = parser::parse_text(COMMAND_LINE, globals, &conf_prefix)?;
        b.apply_all(&directives)?;
    }
    let mut source = Source::default();
    let parsed = parser::parse_file(file, &conf_prefix, &mut source);
    seen.files.clone_from(&source.files);
    parsed?;
    let finished = b
        .apply_all(&source.directives)
        .and_then(|()| finish(&mut b));
    seen.warnings.append(&mut b.warnings);
    let (blocks, warnings) = (finished?, std::mem::take(&mut seen.warnings));
    Ok((
        b.into_config(blocks, source.files, warnings),
        source.directives,
    ))
}

/// Load a configuration from text; `label` is its name in messages.
pub fn load_text(prefix: &Path, label: &str, text: &str) -> Result<Config> {
    let mut b = Builder::new(prefix, prefix);
    b.apply_all(&parser::parse_text(label, text, prefix)?)?;
    let blocks = finish(&mut b)?;
    let warnings = std::mem::take(&mut b.warnings);
    Ok(b.into_config(blocks, Vec::new(), warnings))
}

/// The blocks of a configuration.
struct Blocks {
    http: Option<Http>,
    stream: Option<Stream>,
}

fn finish(b: &mut Builder) -> Result<Blocks> {
    if !b.seen.contains(&"events") {
        return Err(ConfError::new("no \"events\" section in configuration"));
    }
    let http = b.http.take();
    let locs = std::mem::take(&mut b.locs);
    let http = match http {
        Some(node) => Some(http::finish(b, node, locs)?),
        None => None,
    };
    b.vars.check()?;
    let stream = match b.stream.take() {
        Some(node) => Some(stream::finish(b, node)?),
        None => None,
    };
    let of_http = http.iter().flat_map(|http| &http.listeners);
    let of_stream = stream.iter().flat_map(|stream| &stream.listeners);
    stream::check_addresses(of_http.clone(), of_stream.clone())?;
    let sockets = of_http.chain(of_stream).count() as u64;
    let connections = b.main.worker_connections.unwrap_or(512);
    if connections < sockets + 1 {
        return Err(ConfError::new(format!(
            "{connections} worker_connections are not enough for {sockets} listening sockets"
        )));
    }
    Ok(Blocks { http, stream })
}

impl Builder {
    fn into_config(self, blocks: Blocks, files: Vec<SourceFile>, warnings: Vec<String>) -> Config {
        Config {
            main: self.main,
            http: blocks.http,
            stream: blocks.stream,
            vars: self.vars,
            files,
            prefix: self.prefix,
            conf_prefix: self.conf_prefix,
            notices: self.notices,
            warnings,
        }
    }
}
