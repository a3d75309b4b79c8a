//! A stream's outgoing bytes, kept until they are acknowledged.

use crate::ranges::Ranges;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// Outgoing bytes, some of which are sent or acknowledged.
#[derive(Debug, Default)]
pub struct SendBuffer {
    chunks: VecDeque<Bytes>,
    /// The stream offset of the first chunk: everything before is acknowledged.
    base: u64,
    /// The end of the written bytes.
    end: u64,
    /// Everything before was sent at least once.
    sent: u64,
    /// The chunk that contains `sent`, and its stream offset.
    cursor: (usize, u64),
    lost: Ranges,
    acked: Ranges,
}

impl SendBuffer {
    /// Append bytes.
    #[inline]
    pub fn write(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.end += data.len() as u64;
            self.chunks.push_back(data);
        }
    }

    /// The number of bytes written.
    pub fn written(&self) -> u64 {
        self.end
    }

    /// The number of bytes sent at least once.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The bytes from the first unacknowledged one on.
    pub fn unacked(&self) -> u64 {
        self.end - self.base
    }

    /// Whether there are bytes to send.
    pub fn has_pending(&self) -> bool {
        self.sent < self.end || !self.lost.is_empty()
    }

    /// Whether everything sent is acknowledged.
    pub fn is_done(&self) -> bool {
        self.base == self.end
    }

    /// Take up to `max` bytes to send next, lost ones first.
    #[inline]
    pub fn next(&mut self, max: u64) -> Option<Range<u64>> {
        if !self.lost.is_empty() {
            let lost = self.lost.first()?.clone();
            let range = lost.start..lost.end.min(lost.start + max);
            self.lost.remove(range.clone());
            return Some(range);
        }
        let start = self.sent;
        self.sent = self.end.min(start + max);
        (start < self.sent).then_some(start..self.sent)
    }

    /// The next contiguous bytes to send.
    #[inline]
    pub fn peek(&self) -> Option<Range<u64>> {
        match self.lost.first() {
            Some(lost) => Some(lost.clone()),
            None => (self.sent < self.end).then_some(self.sent..self.end),
        }
    }

    /// Append the bytes of a range to `out`.
    #[inline]
    pub fn copy(&mut self, range: Range<u64>, out: &mut Vec<u8>) {
        let (mut index, mut start) = self.cursor;
        if start > range.start || index >= self.chunks.len() {
            (index, start) = (0, self.base);
        }
        let Range { start: mut at, end } = range;
        while at < end {
            let chunk = &self.chunks[index];
            let behind = start + chunk.len() as u64;
            if at < behind {
                let piece = (at - start) as usize..(end.min(behind) - start) as usize;
                at += piece.len() as u64;
                out.extend_from_slice(&chunk[piece]);
            }
            if at < end {
                start = behind;
                index += 1;
            }
        }
        if end == self.sent {
            self.cursor = (index, start);
        }
    }

    /// Handle the acknowledgment of a range. Returns the number of bytes freed.
    #[inline]
    pub fn acked(&mut self, range: Range<u64>) -> u64 {
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > self.base {
            self.acked.insert(range);
            return 0;
        }
        let mut to = self.base.max(range.end);
        if !self.acked.is_empty() {
            self.acked.insert(range);
            if let Some(first) = self.acked.pop_first() {
                to = to.max(first.end);
            }
        }
        self.release(to)
    }

    fn release(&mut self, to: u64) -> u64 {
        let freed = to - self.base;
        let mut left = freed;
        while left > 0 {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let len = chunk.len() as u64;
            if len > left {
                // Keep a view of the rest; the memory is freed with the chunk.
                *chunk = chunk.slice(left as usize..);
                if self.cursor.0 == 0 {
                    self.cursor.1 = to;
                }
                break;
            }
            left -= len;
            self.chunks.pop_front();
            self.cursor = match self.cursor {
                (0, _) => (0, to - left),
                (index, start) => (index - 1, start),
            };
        }
        self.base = to;
        freed
    }

    /// Handle the loss of a range.
    pub fn lost(&mut self, range: Range<u64>) {
        let range = range.start.max(self.base)..range.end.min(self.sent);
        if range.start >= range.end {
            return;
        }
        self.lost.insert(range.clone());
        let arrived: Vec<_> = self
            .acked
            .iter()
            .filter(|r| r.start < range.end)
            .cloned()
            .collect();
        arrived.into_iter().for_each(|r| self.lost.remove(r));
    }

    /// Discard everything. Returns the number of bytes.
    pub fn discard(&mut self) -> u64 {
        let freed = self.unacked();
        *self = Self {
            base: self.end,
            end: self.end,
            sent: self.end,
            ..Self::default()
        };
        freed
    }

    /// Reset for a new stream, keeping memory.
    pub fn restart(&mut self) {
        self.chunks.clear();
        (self.base, self.end, self.sent, self.cursor) = (0, 0, 0, (0, 0));
        self.lost.clear();
        self.acked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize),
        Send(u64),
        /// Operations on the n-th range in flight.
        Acked(usize),
        Lost(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..50).prop_map(Step::Write),
            (1u64..40).prop_map(Step::Send),
            any::<usize>().prop_map(Step::Acked),
            any::<usize>().prop_map(Step::Lost),
        ]
    }

    fn content(range: Range<u64>) -> Vec<u8> {
        range.map(|n| (n * 7 % 251) as u8).collect()
    }

    proptest! {
        #[test]
        fn everything_is_sent_until_it_arrived(steps in prop::collection::vec(step(), 0..200)) {
            let mut buffer = SendBuffer::default();
            let (mut under_way, mut arrived) = (Vec::new(), Ranges::default());
            let mut freed = 0;
            let mut all = steps.clone();
            // In the end, everything is sent and acknowledged.
            for _ in 0..2 * steps.len() + 2 {
                all.push(Step::Send(u64::MAX >> 2));
                all.extend((0..steps.len() + 2).map(|_| Step::Acked(0)));
            }
            for step in all {
                match step {
                    Step::Write(len) => {
                        let end = buffer.written();
                        buffer.write(content(end..end + len as u64).into());
                    }
                    Step::Send(max) => {
                        let peeked = buffer.peek();
                        let range = buffer.next(max);
                        prop_assert_eq!(peeked.map(|r| r.start), range.as_ref().map(|r| r.start));
                        let Some(range) = range else { continue };
                        prop_assert!(range.end - range.start <= max && !range.is_empty());
                        let mut out = Vec::new();
                        buffer.copy(range.clone(), &mut out);
                        prop_assert_eq!(out, content(range.clone()));
                        under_way.push(range);
                    }
                    Step::Acked(n) if !under_way.is_empty() => {
                        let range = under_way.swap_remove(n % under_way.len());
                        arrived.insert(range.clone());
                        freed += buffer.acked(range);
                    }
                    Step::Lost(n) if !under_way.is_empty() => {
                        let range = under_way.swap_remove(n % under_way.len());
                        buffer.lost(range);
                    }
                    _ => {}
                }
                let first = arrived.first().filter(|r| r.start == 0).map_or(0, |r| r.end);
                prop_assert_eq!((freed, buffer.unacked()), (first, buffer.written() - first));
            }
            prop_assert!(buffer.is_done() && !buffer.has_pending());
        }
    }
}
