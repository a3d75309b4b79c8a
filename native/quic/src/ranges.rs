//! Sets of integers stored as ranges: received packet numbers, and received, acknowledged, or lost
//! bytes of streams.

use std::ops::Range;

/// Ascending ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Add a range; `true` if any of it was not in the set.
    pub fn insert(&mut self, new: Range<u64>) -> bool {
        if new.is_empty() {
            return false;
        }
        match self.0.last_mut() {
            Some(last) if new.start < last.start => self.insert_inside(new),
            Some(last) if new.start <= last.end => {
                let grows = new.end > last.end;
                last.end = last.end.max(new.end);
                grows
            }
            _ => {
                self.0.push(new);
                true
            }
        }
    }

    fn insert_inside(&mut self, new: Range<u64>) -> bool {
        let from = self.0.partition_point(|r| r.end < new.start);
        let to = self.0.partition_point(|r| r.start <= new.end);
        if from == to {
            self.0.insert(from, new);
            return true;
        }
        let (first, last) = (&self.0[from], &self.0[to - 1]);
        if first.start <= new.start && first.end >= new.end {
            return false;
        }
        self.0[from] = first.start.min(new.start)..last.end.max(new.end);
        self.0.drain(from + 1..to);
        true
    }

    /// Remove a range.
    pub fn remove(&mut self, gone: Range<u64>) {
        if gone.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end <= gone.start);
        let to = self.0.partition_point(|r| r.start < gone.end);
        if from >= to {
            return;
        }
        let left = self.0[from].start..gone.start;
        let right = gone.end..self.0[to - 1].end;
        let rest = [left, right].into_iter().filter(|r| !r.is_empty());
        self.0.splice(from..to, rest);
    }

    /// Remove everything below `floor`.
    #[inline]
    pub fn remove_below(&mut self, floor: u64) {
        match self.0.first_mut() {
            Some(first) if first.end > floor => first.start = first.start.max(floor),
            Some(_) => self.remove(0..floor),
            None => {}
        }
    }

    /// Remove the lowest range.
    pub fn pop_first(&mut self) -> Option<Range<u64>> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The lowest range.
    pub fn first(&self) -> Option<&Range<u64>> {
        self.0.first()
    }

    /// The highest range.
    pub fn last(&self) -> Option<&Range<u64>> {
        self.0.last()
    }

    /// Whether a number is in the set.
    pub fn contains(&self, n: u64) -> bool {
        match self.0.last() {
            Some(last) if n >= last.start => n < last.end,
            _ => {
                let at = self.0.partition_point(|r| r.end <= n);
                self.0.get(at).is_some_and(|r| r.start <= n)
            }
        }
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All ranges, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> + ExactSizeIterator {
        self.0.iter()
    }

    /// Empty the set and keep its memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn numbers(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.iter().flat_map(Clone::clone).collect()
    }

    proptest! {
        #[test]
        fn they_are_the_set_they_stand_for(
            steps in prop::collection::vec((0..5u8, 0u64..60, 0u64..12), 0..60),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (step, start, len) in steps {
                let range = start..start + len;
                if step == 0 {
                    ranges.remove_below(start);
                    set.retain(|n| *n >= start);
                } else if step < 3 {
                    let new = range.clone().any(|n| !set.contains(&n));
                    prop_assert_eq!(ranges.insert(range.clone()), new);
                    set.extend(range);
                } else {
                    ranges.remove(range.clone());
                    set.retain(|n| !range.contains(n));
                }
                prop_assert_eq!(&numbers(&ranges), &set);
                for n in 0..75 {
                    prop_assert_eq!(ranges.contains(n), set.contains(&n));
                }
                let apart = ranges.0.windows(2).all(|w| w[0].end < w[1].start);
                prop_assert!(apart && ranges.iter().all(|r| !r.is_empty()));
            }
        }
    }

    #[test]
    fn the_lowest_goes_first() {
        let mut ranges = Ranges::default();
        ranges.insert(5..6);
        ranges.insert(1..3);
        assert_eq!(ranges.pop_first(), Some(1..3));
        assert_eq!(
            (ranges.first(), ranges.last()),
            (Some(&(5..6)), Some(&(5..6)))
        );
        assert_eq!((ranges.pop_first(), ranges.pop_first()), (Some(5..6), None));
    }
}
