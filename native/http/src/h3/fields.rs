//! The field sections of a connection: the client's dynamic table and the decoder's messages about
//! it.

use super::{Error, ErrorCode};
use crate::head::{HeadBuilder, HeadError, HeadLimits, RequestHead};
use crate::qpack::{self, Table};
use crate::section_cache::SectionCache;
use std::rc::Rc;

/// Memory that all connections of a worker share.
#[derive(Debug)]
pub struct Shared {
    cache: SectionCache,
    scratch: Vec<u8>,
}

impl Default for Shared {
    /// Up to 512 heads are cached.
    fn default() -> Self {
        Self {
            cache: SectionCache::new(9),
            scratch: Vec::new(),
        }
    }
}

/// Larger scratch memory is freed.
const SCRATCH_KEPT: usize = 64 * 1024;

/// The decoder of a connection's field sections.
#[derive(Debug)]
pub struct Fields {
    /// The table that the client's encoder stream fills.
    pub table: Table,
    limits: HeadLimits,
    /// Cached heads of sections that refer to the table.
    cache: SectionCache,
    /// The number of entries that the decoder has acknowledged.
    acknowledged: u64,
    /// Bytes for our decoder stream.
    instructions: Vec<u8>,
    /// Streams that wait for entries, and the required number of entries.
    blocked: Vec<(u64, u64)>,
}

impl Fields {
    pub fn new(limits: HeadLimits, max_field: usize) -> Self {
        Self {
            table: Table::new(max_field),
            limits,
            cache: SectionCache::new(3),
            acknowledged: 0,
            instructions: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// The head in a section; `None` if the stream must wait for the table.
    pub fn head(
        &mut self,
        shared: &mut Shared,
        stream: u64,
        section: &[u8],
    ) -> Result<Option<Result<Rc<RequestHead>, HeadError>>, Error> {
        // With a Required Insert Count of 0, equal bytes mean equal fields on every connection.
        let anywhere = section.first() == Some(&0);
        let generation = if anywhere { 0 } else { self.table.generation() };
        let cache = if anywhere {
            &mut shared.cache
        } else {
            &mut self.cache
        };
        if let Some(head) = cache.get(generation, section) {
            let head = Rc::clone(head);
            if !anywhere {
                qpack::push_acknowledgement(&mut self.instructions, stream);
            }
            return Ok(Some(Ok(head)));
        }
        let Some(builder) = self.decode(shared, stream, section)? else {
            return Ok(None);
        };
        let head = builder.finish(section.len()).map(Rc::new);
        if let Ok(head) = &head {
            let cache = if anywhere {
                &mut shared.cache
            } else {
                &mut self.cache
            };
            cache.put(generation, section, head);
        }
        Ok(Some(head))
    }

    /// The fields of a section; `None` if the stream must wait for the table.
    pub fn decode(
        &mut self,
        shared: &mut Shared,
        stream: u64,
        section: &[u8],
    ) -> Result<Option<HeadBuilder>, Error> {
        let mut builder = HeadBuilder::new(self.limits);
        let field = |name: &[u8], value: &[u8]| builder.field(name, value);
        let decoded = qpack::decode(section, &self.table, &mut shared.scratch, field);
        if shared.scratch.capacity() > SCRATCH_KEPT {
            shared.scratch = Vec::new();
        }
        match decoded {
            Ok(0) => {}
            Ok(required) => self.acknowledge(stream, required),
            Err(qpack::Error::Blocked(required)) => {
                self.blocked.push((stream, required));
                return Ok(None);
            }
            Err(_) => {
                self.cancel(stream);
                let reason = "client sent invalid field section";
                return Err(Error::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, reason));
            }
        }
        Ok(Some(builder))
    }

    /// Whether a section that begins with these bytes must wait for the table.
    pub fn waits(&self, section: &[u8]) -> bool {
        qpack::waits(section, &self.table)
    }

    fn acknowledge(&mut self, stream: u64, required: u64) {
        qpack::push_acknowledgement(&mut self.instructions, stream);
        self.acknowledged = self.acknowledged.max(required);
    }

    /// Cancel a stream's sections, so that the client may drop their references. `true` if one
    /// waited for the table.
    pub fn cancel(&mut self, stream: u64) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|&(id, _)| id != stream);
        let waited = self.blocked.len() < before;
        qpack::push_cancellation(&mut self.instructions, stream);
        waited
    }

    /// A stream that no longer waits.
    pub fn unblocked(&mut self) -> Option<u64> {
        let inserted = self.table.inserted();
        let ready = |&(_, required): &(u64, u64)| required <= inserted;
        let at = self.blocked.iter().position(ready)?;
        Some(self.blocked.swap_remove(at).0)
    }

    /// Take the bytes for our decoder stream.
    pub fn take_instructions(&mut self) -> Option<Vec<u8>> {
        let news = self.table.inserted() - self.acknowledged;
        if news > 0 {
            qpack::push_increment(&mut self.instructions, news);
            self.acknowledged += news;
        }
        (!self.instructions.is_empty()).then(|| std::mem::take(&mut self.instructions))
    }
}
