//! Runs every corpus, and damaged copies of it, through the entries of the fuzz targets, so that a
//! stable compiler repeats the findings of fuzzing with a nightly one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of damaged copies per input.
const COPIES: usize = 4;
/// The time limit per entry; the rest of its corpus is skipped.
const LIMIT: Duration = Duration::from_secs(4);

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a corpus file");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// A number that depends only on the seed (xorshift).
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed as usize
}

/// Change, drop, duplicate, or splice a few bytes.
fn damage(bytes: &[u8], other: &[u8], seed: &mut u64) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=next(seed) % 3 {
        let at = next(seed) % (out.len() + 1);
        match next(seed) % 4 {
            0 if at < out.len() => out[at] = next(seed) as u8,
            1 => out.truncate(at),
            2 => {
                let tail = out[at..].to_vec();
                out.extend_from_slice(&tail);
            }
            _ => out
                .splice(at..at, other.iter().copied().take(64))
                .for_each(drop),
        }
    }
    out
}

fn replay(name: &str) {
    let entries = crate::ENTRIES;
    let entry = entries
        .iter()
        .find(|(n, _)| *n == name)
        .expect("a target")
        .1;
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let (mut seed, began) = (0x9e37_79b9_7f4a_7c15, Instant::now());
    for (path, bytes) in &corpus {
        if began.elapsed() > LIMIT {
            return;
        }
        // Print the name before the run: after a crash, it names the input.
        eprintln!("{}", path.display());
        entry(bytes);
        for _ in 0..COPIES {
            let other = &corpus[next(&mut seed) % corpus.len()].1;
            let input = damage(bytes, other, &mut seed);
            eprintln!("damaged: {input:02x?}");
            entry(&input);
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let names: Vec<_> = crate::ENTRIES.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets! { configuration fastcgi fields h2 h2_client h3 hpack http1 mp4 qpack quic range }
