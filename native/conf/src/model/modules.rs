//! Settings of the smaller modules: referer, sub, charset_map, and disable_symlinks.

use super::{inherited, GzipStatic, TypeSet};
use crate::names::NameTable;
use crate::pattern::Pattern;
use crate::template::Template;
use hashbrown::HashMap;
use std::sync::Arc;

/// `valid_referers`.
#[derive(Clone, Debug, Default)]
pub struct Referers {
    /// Whether a request without the field is valid.
    pub none: bool,
    /// Whether a field that is no http or https URL is valid.
    pub blocked: bool,
    /// Whether the server block's own names are valid.
    pub server_names: bool,
    /// The names, each with the required start of the path.
    pub names: NameTable<Option<String>>,
    pub patterns: Vec<Pattern>,
}

/// A `sub_filter`: the text to replace, in any case, and the replacement.
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
    /// Reject only links whose owner differs from the file's.
    IfNotOwner,
}

/// `charset_map`: a conversion between two charsets.
#[derive(Clone, Debug)]
pub struct CharsetMap {
    /// The names in lower case.
    pub from: String,
    pub to: String,
    /// UTF-8 if `to` is utf-8, otherwise one byte; bytes without an entry are absent.
    pub forward: HashMap<u8, Vec<u8>>,
}

impl CharsetMap {
    pub fn to_utf8(&self) -> bool {
        self.to == "utf-8"
    }
}

/// Find the map between two charsets, and whether it is applied backwards.
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

/// A content coding other than gzip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Brotli,
    Zstd,
}

impl Coding {
    /// All codings in order of preference.
    pub const ALL: [Coding; 2] = [Coding::Brotli, Coding::Zstd];

    /// The name in `Accept-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The extension of precompressed files.
    pub fn extension(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }
}

/// The use of cookies that tell visitors apart, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserIdMode {
    Off,
    /// Only read for variables.
    Log,
    /// Set in the formats of versions 1 and 2.
    V1,
    On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserIdExpires {
    /// With the client's session.
    Off,
    Max,
    /// After this number of seconds.
    After(u64),
}

/// Bits of `userid_flags`.
pub mod user_id_flags {
    pub const OFF: u32 = 1;

    pub const NAMES: &[(&str, u32)] = &[
        ("off", OFF),
        ("secure", 1 << 1),
        ("httponly", 1 << 2),
        ("samesite=strict", 1 << 3),
        ("samesite=lax", 1 << 4),
        ("samesite=none", 1 << 5),
    ];
}

inherited! {
    /// `userid_*`.
    pub struct UserIdConf {
        mode: UserIdMode,
        service: u64,
        name: String,
        domain: Option<String>,
        path: String,
        expires: UserIdExpires,
        flags: u32,
        p3p: Option<String>,
        mark: Option<u8>,
    }
}

impl UserIdConf {
    /// The name of the cookie.
    pub fn cookie_name(&self) -> &str {
        self.name.as_deref().unwrap_or("uid")
    }
}

inherited! {
    /// The settings of a coding: `brotli_*` or `zstd_*`.
    pub struct CodingConf {
        on: bool,
        types: TypeSet,
        min_length: u64,
        level: u64,
        /// The binary logarithm of the window size; only for brotli.
        window: u64,
        fixed: GzipStatic,
    }
}
