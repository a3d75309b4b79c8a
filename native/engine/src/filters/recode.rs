//! Charset conversion with a table.

use super::transform::Transform;
use gallop_conf::model::CharsetMap;
use hashbrown::HashMap;
use std::io::{self, Write};

/// The replacement for a character that the target charset lacks.
const UNKNOWN: u8 = b'?';

pub enum Recode {
    /// A table from byte to byte.
    Bytes(Box<[u8; 256]>),
    ToUtf8(Box<[Vec<u8>; 256]>),
    FromUtf8 {
        table: HashMap<char, u8>,
        /// The start of an incomplete character.
        held: Vec<u8>,
    },
}

impl Recode {
    pub fn new(map: &CharsetMap, backwards: bool) -> Recode {
        match (map.to_utf8(), backwards) {
            (false, _) => Recode::Bytes(Box::new(byte_table(map, backwards))),
            (true, false) => Recode::ToUtf8(Box::new(std::array::from_fn(|i| {
                let byte = i as u8;
                let own = map.forward.get(&byte).cloned();
                let plain = if byte < 0x80 { byte } else { UNKNOWN };
                own.unwrap_or_else(|| vec![plain])
            }))),
            (true, true) => Recode::FromUtf8 {
                table: map.forward.iter().filter_map(inverted).collect(),
                held: Vec::new(),
            },
        }
    }

    /// Whether conversion changes the length of the body.
    pub fn changes_length(&self) -> bool {
        !matches!(self, Recode::Bytes(_))
    }
}

fn byte_table(map: &CharsetMap, backwards: bool) -> [u8; 256] {
    let mut table = std::array::from_fn(|i| if i < 0x80 { i as u8 } else { UNKNOWN });
    for (from, to) in &map.forward {
        let Some(&to) = to.first() else { continue };
        if backwards {
            table[usize::from(to)] = *from;
        } else {
            table[usize::from(*from)] = to;
        }
    }
    table
}

fn inverted((byte, text): (&u8, &Vec<u8>)) -> Option<(char, u8)> {
    let c = std::str::from_utf8(text).ok()?.chars().next()?;
    Some((c, *byte))
}

fn put(table: &HashMap<char, u8>, c: char, out: &mut Vec<u8>) {
    match table.get(&c) {
        Some(byte) => out.push(*byte),
        None if c.is_ascii() => out.push(c as u8),
        // HTML can express a missing character by a reference. Writing to memory cannot fail.
        None => drop(write!(out, "&#{};", c as u32)),
    }
}

/// Convert complete characters. Returns the start of an incomplete one.
fn from_utf8<'a>(table: &HashMap<char, u8>, mut data: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    loop {
        let (valid, error) = match std::str::from_utf8(data) {
            Ok(text) => (text, None),
            Err(e) => {
                let text = std::str::from_utf8(&data[..e.valid_up_to()]).unwrap_or_default();
                (text, Some(e))
            }
        };
        valid.chars().for_each(|c| put(table, c, out));
        data = &data[valid.len()..];
        match error.and_then(|e| e.error_len()) {
            Some(bad) => {
                out.push(UNKNOWN);
                data = &data[bad..];
            }
            None => return data,
        }
    }
}

impl Transform for Recode {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Recode::Bytes(table) => out.extend(data.iter().map(|c| table[usize::from(*c)])),
            Recode::ToUtf8(table) => {
                let is_unknown = |c: &u8| *c < 0x80 || table[usize::from(*c)] == [UNKNOWN];
                if data.iter().all(is_unknown) {
                    // As in nginx, a character without a conversion is kept.
                    out.extend_from_slice(data);
                    return Ok(());
                }
                data.iter()
                    .for_each(|c| out.extend_from_slice(&table[usize::from(*c)]));
            }
            Recode::FromUtf8 { table, held } => {
                held.extend_from_slice(data);
                let rest = from_utf8(table, held, out).len();
                held.drain(..held.len() - rest);
            }
        }
        Ok(())
    }

    /// As in nginx, an incomplete character at the end is dropped.
    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn koi() -> CharsetMap {
        CharsetMap {
            from: "koi8-r".into(),
            to: "utf-8".into(),
            forward: HashMap::from_iter([(0xc1, "а".into()), (0xc2, "б".into())]),
        }
    }

    fn run(mut recode: Recode, pieces: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            recode.push(piece, &mut out).expect("never fails");
        }
        recode.finish(&mut out).expect("never fails");
        out
    }

    #[test]
    fn characters_become_utf8_and_come_back() {
        let text = run(Recode::new(&koi(), false), &[b"x\xc1\xc2\xff"]);
        assert_eq!(text, "xаб?".as_bytes());
        let back = run(Recode::new(&koi(), true), &[b"x\xd0", b"\xb0\xd0\xb1"]);
        assert_eq!(back, b"x\xc1\xc2");
    }

    #[test]
    fn missing_characters_become_references() {
        let out = run(Recode::new(&koi(), true), &["ж!".as_bytes(), b"\xff\xd0"]);
        assert_eq!(out, b"&#1078;!?", "the last one is cut off");
    }
}
