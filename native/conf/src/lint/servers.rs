//! Checks for server blocks that serve unintended requests, or none.

use super::scope::{place, Scope};
use super::Remarks;
use crate::parser::Directive;
use hashbrown::HashMap;

/// The addresses of a server block.
struct Block<'a> {
    directive: &'a Directive,
    listens: Vec<(&'a str, bool)>,
    names: Vec<String>,
}

impl<'a> Block<'a> {
    fn new(scope: &Scope<'a>) -> Block<'a> {
        let words = scope.own("server_name").flat_map(|d| d.args());
        let mut names: Vec<String> = words.map(|name| name.to_ascii_lowercase()).collect();
        if names.is_empty() {
            names.push(String::new());
        }
        let listen = |d: &'a Directive| {
            let (address, options) = d.args().split_first()?;
            let udp = options.iter().any(|w| w == "quic" || w == "udp");
            let default = options
                .iter()
                .any(|w| w == "default_server" || w == "default");
            (!udp).then_some((address.as_str(), default))
        };
        Block {
            directive: scope.block,
            listens: scope.own("listen").filter_map(listen).collect(),
            names,
        }
    }
}

/// An address in its usual spelling.
fn address(text: &str) -> String {
    match text.strip_prefix("*:") {
        Some(port) => port.to_string(),
        None if text.contains([':', '/']) || text.parse::<u16>().is_ok() => text.to_string(),
        None => format!("{text}:80"),
    }
}

pub fn check(scope: &Scope<'_>, out: &mut Remarks) {
    let inner: Vec<Scope<'_>> = scope.blocks(&["server"]).collect();
    let blocks: Vec<Block<'_>> = inner.iter().map(Block::new).collect();
    missing_default(&blocks, out);
    never_chosen(&blocks, out);
}

/// Unknown names reach the first block of the address.
fn missing_default(blocks: &[Block<'_>], out: &mut Remarks) {
    let mut seen: HashMap<String, (usize, bool, &Block<'_>)> = HashMap::new();
    let mut order = Vec::new();
    for block in blocks {
        for (listen, default) in &block.listens {
            let key = address(listen);
            let entry = seen.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                (0, false, block)
            });
            entry.0 += 1;
            entry.1 |= default;
        }
    }
    for key in order {
        let (count, has_default, first) = &seen[&key];
        let name = first.names.first().map_or("", String::as_str);
        if *count > 1 && !has_default && !matches!(name, "" | "_") {
            out.add(first.directive, format!(
                "no \"default_server\" for {key}: requests for unknown names are answered by this server \
                 block, \"{name}\", because it comes first"
            ));
        }
    }
}

/// All names of the block belong to earlier blocks.
fn never_chosen(blocks: &[Block<'_>], out: &mut Remarks) {
    let mut taken: HashMap<(String, &str), &Directive> = HashMap::new();
    for block in blocks {
        let mut owner = None;
        let mut is_reached = block.listens.is_empty();
        for (listen, default) in &block.listens {
            is_reached |= default;
            for name in &block.names {
                let key = (address(listen), name.as_str());
                match taken.get(&key) {
                    Some(first) => owner = Some(*first),
                    None => {
                        is_reached = true;
                        taken.insert(key, block.directive);
                    }
                }
            }
        }
        if let (false, Some(owner)) = (is_reached, owner) {
            out.add(block.directive, format!(
                "this server block is never chosen: its names are those of {} on the same addresses",
                place(owner)
            ));
        }
    }
}
