//! Writes MaxMind databases (format 2.0, IPv4, records of 24 bits).

/// A value of the data section.
#[derive(Clone)]
pub enum Value {
    Text(String),
    Double(f64),
    Bool(bool),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Array(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    pub fn text(text: &str) -> Value {
        Value::Text(text.to_string())
    }

    pub fn map(entries: &[(&str, Value)]) -> Value {
        let owned = entries.iter().map(|(k, v)| (k.to_string(), v.clone()));
        Value::Map(owned.collect())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Text(text) => head(out, 2, text.len(), text.as_bytes()),
            Value::Double(number) => head(out, 3, 8, &number.to_be_bytes()),
            Value::Uint16(number) => head(out, 5, 2, &number.to_be_bytes()),
            Value::Uint32(number) => head(out, 6, 4, &number.to_be_bytes()),
            Value::Uint64(number) => head(out, 9, 8, &number.to_be_bytes()),
            Value::Bool(value) => head(out, 14, usize::from(*value), &[]),
            Value::Array(all) => {
                head(out, 11, all.len(), &[]);
                all.iter().for_each(|value| value.write(out));
            }
            Value::Map(entries) => {
                head(out, 7, entries.len(), &[]);
                for (key, value) in entries {
                    Value::text(key).write(out);
                    value.write(out);
                }
            }
        }
    }
}

/// A control byte, and the content.
fn head(out: &mut Vec<u8>, kind: u8, size: usize, content: &[u8]) {
    assert!(size < 29, "longer ones are not needed");
    let size = size as u8;
    match kind {
        0..=7 => out.push(kind << 5 | size),
        _ => out.extend_from_slice(&[size, kind - 7]),
    }
    out.extend_from_slice(content);
}

#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    /// An offset in the data section.
    Data(usize),
}

pub struct Database {
    nodes: Vec<[Record; 2]>,
    data: Vec<u8>,
}

impl Default for Database {
    fn default() -> Self {
        Database {
            nodes: vec![[Record::Nothing; 2]],
            data: Vec::new(),
        }
    }
}

impl Database {
    /// Add a network that is not a part of another one.
    pub fn add(&mut self, address: [u8; 4], length: usize, value: &Value) {
        let bits = u32::from_be_bytes(address);
        let bit = |i: usize| (bits >> (31 - i) & 1) as usize;
        let mut at = 0;
        for i in 0..length - 1 {
            at = match self.nodes[at][bit(i)] {
                Record::Node(next) => next,
                _ => {
                    self.nodes.push([Record::Nothing; 2]);
                    self.nodes[at][bit(i)] = Record::Node(self.nodes.len() - 1);
                    self.nodes.len() - 1
                }
            };
        }
        self.nodes[at][bit(length - 1)] = Record::Data(self.data.len());
        value.write(&mut self.data);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let count = self.nodes.len();
        let mut out = Vec::new();
        for record in self.nodes.iter().flatten() {
            let number = match record {
                Record::Nothing => count,
                Record::Node(node) => *node,
                Record::Data(offset) => count + 16 + offset,
            };
            out.extend_from_slice(&(number as u32).to_be_bytes()[1..]);
        }
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&self.data);
        out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        let metadata = Value::map(&[
            ("node_count", Value::Uint32(count as u32)),
            ("record_size", Value::Uint16(24)),
            ("ip_version", Value::Uint16(4)),
            ("database_type", Value::text("Test")),
            ("languages", Value::Array(vec![Value::text("en")])),
            ("binary_format_major_version", Value::Uint16(2)),
            ("binary_format_minor_version", Value::Uint16(0)),
            ("build_epoch", Value::Uint64(1_700_000_000)),
            ("description", Value::map(&[])),
        ]);
        metadata.write(&mut out);
        out
    }
}
