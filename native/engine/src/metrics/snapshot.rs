//! Sums of the counters, over threads and over successive configurations.

use super::{Generation, Section, COUNTERS, SECTIONS};
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by name; the section determines their number per name.
pub type Rows = BTreeMap<String, Vec<u64>>;

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// As in stub_status: accepted, handled, requests, active, reading, writing, waiting.
    pub counters: [u64; COUNTERS],
    sections: [Rows; SECTIONS.len()],
}

impl Snapshot {
    pub fn rows(&self, section: Section) -> &Rows {
        &self.sections[section as usize]
    }

    /// The counts of a section without names.
    pub fn row(&self, section: Section) -> Option<&[u64]> {
        self.rows(section).values().next().map(Vec::as_slice)
    }

    /// Remove the names that a configuration does not have.
    pub fn keep(&mut self, generation: &Generation) {
        for section in SECTIONS {
            let names: HashSet<&String> = generation.layout.names(section).iter().collect();
            self.sections[section as usize].retain(|name, _| names.contains(name));
        }
    }

    /// Add the counts of another snapshot by name.
    pub fn merge(&mut self, other: &Snapshot) {
        add(&mut self.counters, &other.counters);
        for (mine, theirs) in self.sections.iter_mut().zip(&other.sections) {
            for (name, counts) in theirs {
                add(row_of(mine, name, counts.len()), counts);
            }
        }
    }
}

fn row_of<'a>(rows: &'a mut Rows, name: &str, width: usize) -> &'a mut [u64] {
    if !rows.contains_key(name) {
        rows.insert(name.to_string(), vec![0; width]);
    }
    rows.get_mut(name).expect("it was just put there")
}

fn add(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

impl Generation {
    /// The sums of the counters until now.
    pub fn read(&self) -> Snapshot {
        let mut out = Snapshot::default();
        let (counters, threads) = self.cells.cells().split_at(COUNTERS);
        load(counters, &mut out.counters);
        for thread in threads
            .chunks_exact(self.layout.stride.max(1))
            .take(self.threads)
        {
            SECTIONS
                .iter()
                .for_each(|s| self.gather(thread, *s, &mut out));
        }
        out
    }

    fn gather(&self, thread: &[AtomicU64], section: Section, out: &mut Snapshot) {
        let rows = &mut out.sections[section as usize];
        for (i, name) in self.layout.names(section).iter().enumerate() {
            let row = row_of(rows, name, section.width());
            // Skip the cells of zones without requests: they use no memory yet.
            if section != Section::Zone || self.is_used(thread, i) {
                load(&thread[self.layout.at(section, i)..], row);
            }
        }
    }

    fn is_used(&self, thread: &[AtomicU64], zone: usize) -> bool {
        let bits = thread[self.layout.used + zone / 64].load(Ordering::Relaxed);
        bits & (1 << (zone % 64)) != 0
    }
}

fn load(cells: &[AtomicU64], row: &mut [u64]) {
    let counts = cells.iter().map(|cell| cell.load(Ordering::Relaxed));
    row.iter_mut().zip(counts).for_each(|(to, n)| *to += n);
}
