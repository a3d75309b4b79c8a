//! The directive table: the name, contexts, arity, and setter of every directive.

use crate::builder::Builder;
use crate::directives;
use crate::error::{ConfError, Result};
use crate::parser::Directive;
use crate::template::Template;
use crate::values;
use hashbrown::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The contexts of a directive, as bits.
pub mod ctx {
    pub const MAIN: u32 = 1;
    pub const EVENTS: u32 = 1 << 1;
    pub const HTTP: u32 = 1 << 2;
    pub const SRV: u32 = 1 << 3;
    pub const LOC: u32 = 1 << 4;
    /// `if` in a server block.
    pub const SIF: u32 = 1 << 5;
    /// `if` in a location.
    pub const LIF: u32 = 1 << 6;
    /// `limit_except`.
    pub const LMT: u32 = 1 << 7;
    pub const UPS: u32 = 1 << 8;
    /// `stream`, its server blocks, and its upstream blocks.
    pub const STREAM: u32 = 1 << 9;
    pub const SSRV: u32 = 1 << 10;
    pub const SUPS: u32 = 1 << 11;
    /// `match` blocks of http and of `stream`.
    pub const MATCH: u32 = 1 << 12;
    pub const SMATCH: u32 = 1 << 13;
    pub const ANY_STREAM: u32 = STREAM | SSRV | SUPS | SMATCH;
    pub const HS: u32 = HTTP | SRV;
    pub const HSL: u32 = HTTP | SRV | LOC;
    pub const HSLI: u32 = HSL | LIF;
}

/// Allowed numbers of arguments, inclusive.
#[derive(Clone, Copy, Debug)]
pub struct Arity(pub usize, pub usize);

pub const NONE: Arity = Arity(0, 0);
pub const ONE: Arity = Arity(1, 1);
pub const TWO: Arity = Arity(2, 2);
pub const MORE: Arity = Arity(1, usize::MAX);
pub const TWO_OR_MORE: Arity = Arity(2, usize::MAX);

type Get<T> = fn(&mut Builder) -> &mut Option<T>;

/// The way that a directive's arguments are stored.
#[derive(Clone, Copy)]
pub enum Setter {
    Fn(fn(&mut Builder, &Directive) -> Result<()>),
    Flag(Get<bool>),
    Size(Get<u64>),
    Num(Get<u64>),
    /// Milliseconds.
    Msec(Get<u64>),
    /// Seconds.
    Sec(Get<u64>),
    Str(Get<String>),
    /// Number and size.
    Bufs(Get<(u64, u64)>),
    Tmpl(Get<Template>),
    /// A file relative to the configuration file's folder.
    ConfPath(Get<PathBuf>),
    /// A path relative to the prefix; further arguments (folder levels) have no effect.
    TempPath(Get<PathBuf>),
    Strings(Get<Arc<Vec<String>>>),
    /// Accepted for compatibility without an effect. Values that nginx rejects are rejected.
    Unused(Takes),
    /// Obsolete in nginx too, which warns; the value names the replacement.
    Obsolete(Option<&'static str>),
}

/// The arguments of a directive without an effect.
#[derive(Clone, Copy)]
pub enum Takes {
    Text,
    Flag,
    Size,
    Num,
    Msec,
    Bufs,
    /// The size of a memory pool.
    Pool,
    PowerOfTwo,
}

#[derive(Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    pub contexts: u32,
    pub arity: Arity,
    pub block: bool,
    pub set: Setter,
}

pub const fn simple(name: &'static str, contexts: u32, arity: Arity, set: Setter) -> Spec {
    Spec {
        name,
        contexts,
        arity,
        block: false,
        set,
    }
}

pub const fn with(
    name: &'static str,
    contexts: u32,
    arity: Arity,
    set: fn(&mut Builder, &Directive) -> Result<()>,
) -> Spec {
    simple(name, contexts, arity, Setter::Fn(set))
}

pub const fn block(
    name: &'static str,
    contexts: u32,
    arity: Arity,
    set: fn(&mut Builder, &Directive) -> Result<()>,
) -> Spec {
    Spec {
        name,
        contexts,
        arity,
        block: true,
        set: Setter::Fn(set),
    }
}

/// All directives; rows may share a name if their contexts differ.
pub fn rows() -> impl Iterator<Item = &'static Spec> {
    directives::TABLES.iter().flat_map(|t| t.iter())
}

fn index() -> &'static HashMap<&'static str, Vec<&'static Spec>> {
    static INDEX: OnceLock<HashMap<&'static str, Vec<&'static Spec>>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut map: HashMap<&'static str, Vec<&'static Spec>> = HashMap::new();
        rows().for_each(|spec| map.entry(spec.name).or_default().push(spec));
        map
    })
}

/// Blocks of values instead of directives.
const VALUES: [&str; 5] = ["types", "map", "geo", "split_clients", "charset_map"];

/// The problem with a `{` after a word, such as an unquoted regular expression with a brace. It is
/// reported while reading, since later only the end of the file would be reported. `around` is the
/// enclosing block.
pub fn wrong_opening(name: &str, around: Option<&str>) -> Option<String> {
    match index().get(name) {
        Some(specs) if specs.iter().any(|s| s.block) => None,
        Some(_) => Some(format!("directive \"{name}\" is not terminated by \";\"")),
        None if around.is_some_and(|a| VALUES.contains(&a)) => None,
        None => Some(format!("unknown directive \"{name}\"")),
    }
}

/// Check a directive against the table and apply it.
pub fn apply(b: &mut Builder, d: &Directive) -> Result<()> {
    let fail = |message: String| Err(ConfError::at(message, &d.place));
    let Some(specs) = index().get(d.name()) else {
        return fail(format!("unknown directive \"{}\"", d.name()));
    };
    let Some(spec) = specs.iter().find(|s| s.contexts & b.ctx != 0) else {
        return fail(format!("\"{}\" directive is not allowed here", d.name()));
    };
    match (spec.block, d.block.is_some()) {
        (true, false) => return fail(format!("directive \"{}\" has no opening \"{{\"", d.name())),
        (false, true) => {
            return fail(format!(
                "directive \"{}\" is not terminated by \";\"",
                d.name()
            ))
        }
        _ => {}
    }
    let n = d.args().len();
    if n < spec.arity.0 || n > spec.arity.1 {
        return fail(format!(
            "invalid number of arguments in \"{}\" directive",
            d.name()
        ));
    }
    set(b, d, spec).map_err(|e| e.or_at(&d.place))
}

fn set(b: &mut Builder, d: &Directive, spec: &Spec) -> Result<()> {
    let args = d.args();
    match spec.set {
        Setter::Unused(takes) => check_unused(takes, d),
        Setter::Obsolete(instead) => {
            let advice = match instead {
                Some(name) => format!("use the \"{name}\" directive instead"),
                None => "ignored".to_string(),
            };
            let message = format!("the \"{}\" directive is obsolete, {advice}", d.name());
            b.warn(message, &d.place);
            Ok(())
        }
        Setter::Fn(f) => f(b, d),
        Setter::Flag(get) if get(b).is_some() => Err(duplicate(d)),
        Setter::Flag(get) => {
            let value = flag(d, &args[0])?;
            store(get(b), value, d)
        }
        Setter::Size(get) => parsed(get(b), values::parse_size(&args[0]), d),
        Setter::Num(get) => match values::parse_digits(&args[0]) {
            Some(n) => store(get(b), n, d),
            None => Err(invalid_number(d)),
        },
        Setter::Msec(get) => parsed(get(b), values::parse_msec(&args[0]), d),
        Setter::Sec(get) => parsed(get(b), values::parse_sec(&args[0]), d),
        Setter::Str(get) => store(get(b), args[0].clone(), d),
        Setter::Bufs(get) => parsed(get(b), buffers(args), d),
        Setter::Tmpl(get) => {
            let value = b.template(&args[0], &d.place)?;
            store(get(b), value, d)
        }
        Setter::ConfPath(get) => {
            let path = if args[0].is_empty() {
                PathBuf::new()
            } else {
                b.conf_path(&args[0])
            };
            store(get(b), path, d)
        }
        Setter::TempPath(get) => {
            if !args[1..].iter().all(|level| is_level(level)) {
                return Err(invalid_value(d));
            }
            let path = b.path(&args[0]);
            store(get(b), path, d)
        }
        Setter::Strings(get) => {
            let slot = get(b);
            Arc::make_mut(slot.get_or_insert_with(Arc::default)).extend(args.iter().cloned());
            Ok(())
        }
    }
}

fn check_unused(takes: Takes, d: &Directive) -> Result<()> {
    let args = d.args();
    let is_valid = match takes {
        Takes::Text => true,
        Takes::Flag => flag(d, &args[0]).map(|_| true)?,
        Takes::Size => values::parse_size(&args[0]).is_some(),
        Takes::Msec => values::parse_msec(&args[0]).is_some(),
        Takes::Bufs => buffers(args).is_some(),
        Takes::Pool => pool_size(d).map(|_| true)?,
        Takes::Num | Takes::PowerOfTwo => {
            let n = values::parse_digits(&args[0]).ok_or_else(|| invalid_number(d))?;
            if matches!(takes, Takes::PowerOfTwo) && !n.is_power_of_two() {
                let message = format!("\"{}\" directive must be a power of two", d.name());
                return Err(ConfError::new(message));
            }
            true
        }
    };
    if is_valid {
        Ok(())
    } else {
        Err(invalid_value(d))
    }
}

/// The smallest pool in bytes, and the unit of pool sizes.
const SMALLEST_POOL: u64 = 112;
const POOL_ALIGNMENT: u64 = 16;

/// Parse the size of a memory pool by nginx's rules.
pub fn pool_size(d: &Directive) -> Result<u64> {
    let size = values::parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
    let problem = if size < SMALLEST_POOL {
        format!("the pool size must be no less than {SMALLEST_POOL}")
    } else if size % POOL_ALIGNMENT != 0 {
        format!("the pool size must be a multiple of {POOL_ALIGNMENT}")
    } else {
        return Ok(size);
    };
    Err(ConfError::new(problem))
}

/// Reject a duplicate of a directive without an effect.
pub fn check_once(block: &[Directive]) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for d in block {
        let specs = index().get(d.name()).map_or(&[][..], Vec::as_slice);
        if !specs.iter().any(|s| matches!(s.set, Setter::Unused(_))) {
            continue;
        }
        if seen.contains(&d.name()) {
            return Err(duplicate(d));
        }
        seen.push(d.name());
    }
    Ok(())
}

/// A number and a size, neither of them 0.
fn buffers(args: &[String]) -> Option<(u64, u64)> {
    let number = values::parse_digits(&args[0]).filter(|&n| n > 0);
    let size = values::parse_size(&args[1]).filter(|&n| n > 0);
    number.zip(size)
}

/// Whether the text is a valid number of characters for a folder level.
fn is_level(text: &str) -> bool {
    values::parse_digits(text).is_some_and(|n| (1..=9).contains(&n))
}

/// Store a setting that may appear once per block.
pub fn store<T>(slot: &mut Option<T>, value: T, d: &Directive) -> Result<()> {
    if slot.is_some() {
        return Err(duplicate(d));
    }
    *slot = Some(value);
    Ok(())
}

/// Add bits that several directives of a block may set, as in nginx.
pub fn add_bits(slot: &mut Option<u32>, bits: u32) -> Result<()> {
    *slot = Some(slot.unwrap_or(0) | bits);
    Ok(())
}

/// Add values that several directives of a block may set, as in nginx.
pub fn add_values<T: Clone>(slot: &mut Option<Arc<Vec<T>>>, values: &[T]) -> Result<()> {
    Arc::make_mut(slot.get_or_insert_with(Arc::default)).extend_from_slice(values);
    Ok(())
}

/// The text of a file that is read with the configuration.
pub fn read_file(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| {
        let call = match e.kind() {
            std::io::ErrorKind::IsADirectory => "read",
            _ => "open",
        };
        let error = crate::parser::os_error(&e);
        ConfError::new(format!("{call}() \"{}\" failed ({error})", path.display()))
    })
}

pub fn duplicate(d: &Directive) -> ConfError {
    ConfError::at(format!("\"{}\" directive is duplicate", d.name()), &d.place)
}

pub fn invalid_value(d: &Directive) -> ConfError {
    ConfError::at(
        format!("\"{}\" directive invalid value", d.name()),
        &d.place,
    )
}

pub fn invalid_number(d: &Directive) -> ConfError {
    ConfError::at(
        format!("\"{}\" directive invalid number", d.name()),
        &d.place,
    )
}

/// nginx's error for an invalid parameter.
pub fn invalid_parameter(d: &Directive, arg: &str) -> ConfError {
    ConfError::at(format!("invalid parameter \"{arg}\""), &d.place)
}

fn parsed<T>(slot: &mut Option<T>, value: Option<T>, d: &Directive) -> Result<()> {
    match value {
        Some(v) => store(slot, v, d),
        None if slot.is_some() => Err(duplicate(d)),
        None => Err(invalid_value(d)),
    }
}

pub fn flag(d: &Directive, word: &str) -> Result<bool> {
    match word.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ConfError::at(
            format!(
                "invalid value \"{word}\" in \"{}\" directive, it must be \"on\" or \"off\"",
                d.name()
            ),
            &d.place,
        )),
    }
}

/// One of several words.
pub fn choice<T: Copy>(d: &Directive, word: &str, choices: &[(&str, T)]) -> Result<T> {
    let hit = choices
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word));
    hit.map(|(_, v)| *v)
        .ok_or_else(|| ConfError::at(format!("invalid value \"{word}\""), &d.place))
}

/// The bits of all words, as in `proxy_next_upstream error timeout`.
pub fn bitmask(b: &mut Builder, d: &Directive, choices: &[(&str, u32)]) -> Result<u32> {
    let mut bits = 0;
    for word in d.args() {
        let bit = choice(d, word, choices)?;
        if bits & bit != 0 {
            b.warn(format!("duplicate value \"{word}\""), &d.place);
        }
        bits |= bit;
    }
    Ok(bits)
}
