//! A latency histogram whose buckets are at most 1/64 as wide as their values.

use std::time::Duration;

const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;

/// Counts of values in microseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; SUB * 40],
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

fn bucket(us: u64) -> usize {
    if us < SUB as u64 {
        return us as usize;
    }
    let shift = us.ilog2() - SUB_BITS;
    ((shift as usize + 1) << SUB_BITS) + ((us >> shift) as usize - SUB)
}

/// The largest value in a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    (((bucket % SUB + SUB + 1) as u64) << shift) - 1
}

impl Histogram {
    pub fn record(&mut self, time: Duration) {
        self.add(time.as_micros() as u64);
    }

    fn add(&mut self, us: u64) {
        let last = self.buckets.len() - 1;
        self.buckets[bucket(us).min(last)] += 1;
        self.count += 1;
        self.sum += us;
        self.max = self.max.max(us);
    }

    /// Add the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that the fraction `share` (0 to 1) of the values does not exceed; 0 without
    /// values.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted.max(1) {
                return upper(index).min(self.max);
            }
        }
        self.max
    }

    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_bucket() {
        let mut histogram = Histogram::default();
        let mut other = Histogram::default();
        (1..=60_000).for_each(|us| histogram.record(Duration::from_micros(us)));
        (60_001..=100_000).for_each(|us| other.record(Duration::from_micros(us)));
        histogram.merge(&other);
        for (share, want) in [(0.5, 50_000.0), (0.9, 90_000.0), (0.999, 99_900.0)] {
            let got = histogram.quantile(share) as f64;
            assert!((got / want - 1.0).abs() < 0.02, "{share}: {got}");
        }
        assert_eq!(
            (histogram.max(), histogram.quantile(1.0)),
            (100_000, 100_000)
        );
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
