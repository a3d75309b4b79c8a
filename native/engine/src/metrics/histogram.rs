//! Latency histograms with four buckets per doubling, so that a percentile is accurate to a
//! quarter.

/// The first bucket covers latencies below this; every doubling after it has four buckets.
const FIRST_US: u64 = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 4;
/// Latencies from 67 s on fall into the last bucket.
const LAST_BITS: u32 = 26;
pub const BUCKETS: usize = 2 + 4 * (LAST_BITS - FIRST_BITS) as usize;

/// The bucket for a latency.
pub fn bucket(us: u64) -> usize {
    if us < FIRST_US {
        return 0;
    }
    let bits = 63 - us.leading_zeros();
    if bits >= LAST_BITS {
        return BUCKETS - 1;
    }
    let quarter = (us >> (bits - 2)) & 3;
    1 + 4 * (bits - FIRST_BITS) as usize + quarter as usize
}

/// The upper bound of a bucket in microseconds; `None` for the last.
pub fn bound(bucket: usize) -> Option<u64> {
    match bucket {
        0 => Some(FIRST_US),
        _ if bucket + 1 >= BUCKETS => None,
        _ => {
            let (bits, quarter) = ((bucket - 1) / 4, (bucket - 1) % 4);
            Some((5 + quarter as u64) << (bits as u32 + FIRST_BITS - 2))
        }
    }
}

/// The latency in microseconds below which `per_mille` thousandths of all values lie: the upper
/// bound of a bucket, so at most a quarter too high. `None` without values.
pub fn quantile(buckets: &[u64], per_mille: u64) -> Option<u64> {
    let total: u64 = buckets.iter().sum();
    let wanted = (total * per_mille).div_ceil(1000).max(1);
    let mut seen = 0;
    for (i, count) in buckets.iter().enumerate() {
        seen += count;
        if total > 0 && seen >= wanted {
            return Some(bound(i).unwrap_or(1 << LAST_BITS));
        }
    }
    None
}

/// The bounds at each doubling (microseconds) with the number of values below, as a Prometheus
/// histogram shows them.
pub fn doublings(buckets: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut below = 0;
    buckets.iter().enumerate().filter_map(move |(i, count)| {
        below += count;
        bound(i)
            .filter(|b| b.is_power_of_two())
            .map(|bound| (bound, below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_in_the_bucket_whose_bounds_surround_it() {
        for us in (0..200_000).chain((200_000..80_000_000).step_by(7919)) {
            let i = bucket(us);
            assert!(bound(i).is_none_or(|above| us < above), "{us} in {i}");
            assert!(
                i == 0 || bound(i - 1).is_some_and(|below| us >= below),
                "{us} in {i}"
            );
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bound(BUCKETS - 2), Some(1 << LAST_BITS));
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_high() {
        let mut buckets = vec![0; BUCKETS];
        assert_eq!(quantile(&buckets, 500), None);
        (1..=1000).for_each(|us| buckets[bucket(us * 10)] += 1);
        for (per_mille, exact) in [(500, 5000), (900, 9000), (990, 9900)] {
            let said = quantile(&buckets, per_mille).expect("counted");
            assert!(said >= exact && said <= exact * 5 / 4, "{said} {exact}");
        }
    }

    #[test]
    fn doublings_count_everything_below() {
        let mut buckets = vec![0; BUCKETS];
        for us in [3, 20, 40, 1000, u64::MAX] {
            buckets[bucket(us)] += 1;
        }
        let all: Vec<_> = doublings(&buckets).collect();
        assert_eq!(all.first(), Some(&(16, 1)));
        assert!(all.contains(&(64, 3)) && all.contains(&(1024, 4)));
        assert_eq!(all.last(), Some(&(1 << LAST_BITS, 4)));
    }
}
