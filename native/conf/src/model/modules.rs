//! Settings of the smaller modules: referer, sub, charset_map, disable_symlinks.

use super::{inherited, GzipStatic, TypeSet};
use crate::names::NameTable;
use crate::pattern::Pattern;
use crate::template::Template;
use hashbrown::HashMap;
use std::sync::Arc;

/// `valid_referers`.
#[derive(Clone, Debug, Default)]
pub struct Referers {
    /// A request without the field is valid.
    pub none: bool,
    /// So is one whose field names no http or https URL.
    pub blocked: bool,
    /// The server's own names count.
    pub server_names: bool,
    /// Names, each with the start of the path it must be followed by.
    pub names: NameTable<Option<String>>,
    pub patterns: Vec<Pattern>,
}

/// One `sub_filter`: what is looked for, in any case of letters, and what takes its place.
#[derive(Clone, Debug)]
pub struct SubPair {
    pub from: Template,
    pub to: Template,
}

/// `disable_symlinks`.
#[derive(Clone, Debug)]
pub struct Symlinks {
    pub mode: SymlinkMode,
    /// The start of the path in which links are followed.
    pub from: Option<Template>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkMode {
    Off,
    On,
    /// Only links whose owner is not the file's are refused.
    IfNotOwner,
}

/// `charset_map`: how bytes of one charset are written in another.
#[derive(Clone, Debug)]
pub struct CharsetMap {
    /// Names in lower case.
    pub from: String,
    pub to: String,
    /// UTF-8 when `to` is utf-8, else one byte; bytes without an entry are absent.
    pub forward: HashMap<u8, Vec<u8>>,
}

impl CharsetMap {
    pub fn to_utf8(&self) -> bool {
        self.to == "utf-8"
    }
}

/// Finds the way from one charset to another: the map, and whether it is walked backwards.
pub fn charset_route<'a>(
    maps: &'a [Arc<CharsetMap>],
    from: &str,
    to: &str,
) -> Option<(&'a Arc<CharsetMap>, bool)> {
    let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    maps.iter().find_map(|m| {
        if is(&m.from, from) && is(&m.to, to) {
            Some((m, false))
        } else if is(&m.from, to) && is(&m.to, from) {
            Some((m, true))
        } else {
            None
        }
    })
}

/// A coding of bodies beside gzip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Brotli,
    Zstd,
}

impl Coding {
    /// In the order in which they are preferred.
    pub const ALL: [Coding; 2] = [Coding::Brotli, Coding::Zstd];

    /// As `Accept-Encoding` names it.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// What files compressed so are called.
    pub fn extension(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }
}

inherited! {
    /// Settings of one coding: `brotli_*` or `zstd_*`.
    pub struct CodingConf {
        on: bool,
        types: TypeSet,
        min_length: u64,
        level: u64,
        /// The power of two of the window's bytes; brotli's alone.
        window: u64,
        fixed: GzipStatic,
    }
}
