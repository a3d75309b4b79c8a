//! MP4 files: every atom that the `mp4` directive changes, in the smallest form.

/// A track whose samples have bytes that tell where they are from.
#[derive(Clone, Debug)]
pub struct Track {
    pub is_video: bool,
    pub timescale: u32,
    /// Samples and the duration of each.
    pub times: Vec<(u32, u32)>,
    /// Numbers of key frames, from 1.
    pub key_frames: Option<Vec<u32>>,
    /// Samples and the offset of each one's time.
    pub offsets: Option<Vec<(u32, u32)>>,
    /// The samples of each chunk.
    pub chunks: Vec<u32>,
    /// The size of all samples; 0: different ones.
    pub uniform: u32,
    /// Chunk offsets of 64 bits.
    pub is_wide: bool,
    /// Durations of 64 bits.
    pub is_long: bool,
}

#[derive(Clone, Debug)]
pub struct Movie {
    pub timescale: u32,
    pub tracks: Vec<Track>,
    pub is_movie_first: bool,
    pub is_long: bool,
    /// Give atoms sizes of 64 bits.
    pub is_wide: bool,
    /// Atoms that `mp4` drops.
    pub has_others: bool,
}

/// Ten seconds of video with 15 frames a second and of audio, in chunks of different sizes.
pub fn movie() -> Movie {
    let video = Track {
        is_video: true,
        timescale: 15_000,
        times: vec![(70, 1000), (40, 500), (60, 1000)],
        key_frames: Some((0..12).map(|n| n * 15 + 1).collect()),
        offsets: Some(vec![(1, 2000), (50, 1000), (100, 0), (19, 500)]),
        chunks: (0..34).map(|n| 4 + n % 3).collect(),
        uniform: 0,
        is_wide: false,
        is_long: false,
    };
    let audio = Track {
        is_video: false,
        timescale: 8000,
        times: vec![(79, 1024)],
        key_frames: None,
        offsets: None,
        chunks: [vec![3; 20], vec![2; 9], vec![1]].concat(),
        uniform: 0,
        is_wide: false,
        is_long: false,
    };
    Movie {
        timescale: 1000,
        tracks: vec![video, audio],
        is_movie_first: true,
        is_long: false,
        is_wide: false,
        has_others: false,
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_be_bytes()).collect()
}

pub fn atom(name: &str, parts: &[&[u8]]) -> Vec<u8> {
    let data = parts.concat();
    [&words(&[data.len() as u32 + 8])[..], name.as_bytes(), &data].concat()
}

/// A table with version, flags, and the number of its rows.
fn table(name: &str, rows: u32, values: &[u32]) -> Vec<u8> {
    atom(name, &[&words(&[0, rows]), &words(values)])
}

fn pairs(name: &str, rows: &[(u32, u32)]) -> Vec<u8> {
    let values: Vec<u32> = rows.iter().flat_map(|&(a, b)| [a, b]).collect();
    table(name, rows.len() as u32, &values)
}

impl Track {
    pub fn samples(&self) -> u32 {
        self.times.iter().map(|(count, _)| count).sum()
    }

    pub fn duration(&self) -> u64 {
        let row = |&(count, duration): &(u32, u32)| u64::from(count) * u64::from(duration);
        self.times.iter().map(row).sum()
    }

    fn size(&self, sample: u32) -> u32 {
        match self.uniform {
            0 => 20 + sample * 7 % 90,
            size => size,
        }
    }

    /// The bytes of a sample: its number, over and over.
    pub fn sample(&self, sample: u32) -> Vec<u8> {
        let kind = if self.is_video { 'v' } else { 'a' };
        let text = format!("{kind}{sample:03} ");
        text.bytes()
            .cycle()
            .take(self.size(sample) as usize)
            .collect()
    }

    /// The bytes of each chunk.
    fn chunk_bytes(&self) -> Vec<Vec<u8>> {
        let mut next = 0;
        let chunk = |&samples: &u32| {
            let first = next;
            next += samples;
            (first..next).flat_map(|n| self.sample(n)).collect()
        };
        self.chunks.iter().map(chunk).collect()
    }

    /// `stsc`: a row wherever the number of samples changes.
    fn runs(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        let mut before = 0;
        for (chunk, &samples) in self.chunks.iter().enumerate() {
            if samples != before {
                rows.extend([chunk as u32 + 1, samples, 1]);
            }
            before = samples;
        }
        table("stsc", rows.len() as u32 / 3, &rows)
    }

    fn sizes(&self) -> Vec<u8> {
        let samples = self.samples();
        match self.uniform {
            0 => {
                let sizes: Vec<u32> = (0..samples).map(|n| self.size(n)).collect();
                atom("stsz", &[&words(&[0, 0, samples]), &words(&sizes)])
            }
            size => atom("stsz", &[&words(&[0, size, samples])]),
        }
    }

    fn places(&self, places: &[u64]) -> Vec<u8> {
        let count = words(&[0, places.len() as u32]);
        if self.is_wide {
            let bytes: Vec<u8> = places.iter().flat_map(|p| p.to_be_bytes()).collect();
            return atom("co64", &[&count, &bytes]);
        }
        let bytes: Vec<u32> = places.iter().map(|&p| p as u32).collect();
        atom("stco", &[&count, &words(&bytes)])
    }

    fn atom(&self, id: u32, movie: &Movie, places: &[u64]) -> Vec<u8> {
        let units = self.duration() * u64::from(movie.timescale) / u64::from(self.timescale);
        let matrix = [0; 52];
        let tkhd = match self.is_long {
            false => atom(
                "tkhd",
                &[&words(&[7, 1, 2, id, 0, units as u32]), &matrix, &[9; 8]],
            ),
            true => {
                let head = words(&[1 << 24, 0, 1, 0, 2, id, 0]);
                atom("tkhd", &[&head, &units.to_be_bytes(), &matrix, &[9; 8]])
            }
        };
        let mdhd = times(
            "mdhd",
            self.is_long,
            self.timescale,
            self.duration(),
            &[85, 196, 0, 0],
        );
        let kind = if self.is_video { "vide" } else { "soun" };
        let hdlr = atom(
            "hdlr",
            &[&words(&[0, 0]), kind.as_bytes(), &[0; 12], b"handler\0"],
        );
        let media_header = match self.is_video {
            true => atom("vmhd", &[&[0, 0, 0, 1], &[0; 8]]),
            false => atom("smhd", &[&[0; 8]]),
        };
        let dinf = atom(
            "dinf",
            &[&atom(
                "dref",
                &[&words(&[0, 1]), &atom("url ", &[&[0, 0, 0, 1]])],
            )],
        );
        let mut tables = vec![
            atom(
                "stsd",
                &[&words(&[0, 1]), &atom("raw ", &[&[0, 0, 0, 0, 0, 0, 0, 1]])],
            ),
            pairs("stts", &self.times),
        ];
        if let Some(frames) = &self.key_frames {
            tables.push(table("stss", frames.len() as u32, frames));
        }
        tables.extend(self.offsets.as_ref().map(|rows| pairs("ctts", rows)));
        tables.extend([self.runs(), self.sizes(), self.places(places)]);
        let stbl = atom("stbl", &[&tables.concat()]);
        let minf = atom("minf", &[&media_header, &dinf, &stbl]);
        let edit = match movie.has_others {
            true => atom("edts", &[&table("elst", 1, &[units as u32, 0, 1 << 16])]),
            false => Vec::new(),
        };
        atom(
            "trak",
            &[&tkhd, &edit, &atom("mdia", &[&mdhd, &hdlr, &minf])],
        )
    }
}

/// `mvhd` or `mdhd`.
fn times(name: &str, is_long: bool, timescale: u32, duration: u64, rest: &[u8]) -> Vec<u8> {
    if is_long {
        let head = words(&[1 << 24, 0, 1, 0, 2, timescale]);
        return atom(name, &[&head, &duration.to_be_bytes(), rest]);
    }
    atom(
        name,
        &[&words(&[0, 1, 2, timescale, duration as u32]), rest],
    )
}

impl Movie {
    /// An atom at the top of the file.
    fn top(&self, name: &str, data: &[u8]) -> Vec<u8> {
        if !self.is_wide {
            return atom(name, &[data]);
        }
        let size = data.len() as u64 + 16;
        [&words(&[1])[..], name.as_bytes(), &size.to_be_bytes(), data].concat()
    }

    fn header(&self, places: &[Vec<u64>]) -> Vec<u8> {
        let seconds = |t: &Track| t.duration() * u64::from(self.timescale) / u64::from(t.timescale);
        let duration = self.tracks.iter().map(seconds).max().unwrap_or(0);
        let mut parts = vec![times(
            "mvhd",
            self.is_long,
            self.timescale,
            duration,
            &[1; 80],
        )];
        for (n, track) in self.tracks.iter().enumerate() {
            parts.push(track.atom(n as u32 + 1, self, &places[n]));
        }
        if self.has_others {
            parts.push(atom("udta", &[&atom("name", &[b"nobody reads this"])]));
        }
        self.top("moov", &parts.concat())
    }

    /// The file: chunks of the tracks take turns.
    pub fn build(&self) -> Vec<u8> {
        let chunks: Vec<_> = self.tracks.iter().map(Track::chunk_bytes).collect();
        let mut start = self.top("ftyp", b"isom\0\0\x02\0isommp41");
        if self.has_others {
            start.extend(atom("free", &[&[0; 33]]));
        }
        let mut places: Vec<Vec<u64>> = chunks.iter().map(|c| vec![0; c.len()]).collect();
        let header_size = self.header(&places).len();
        let before = if self.is_movie_first { header_size } else { 0 };
        let first = start.len() + before + self.top("mdat", &[]).len();
        let mut media = Vec::new();
        let turns = chunks.iter().map(Vec::len).max().unwrap_or(0);
        for turn in 0..turns {
            for (chunks, places) in chunks.iter().zip(&mut places) {
                if let (Some(bytes), Some(place)) = (chunks.get(turn), places.get_mut(turn)) {
                    *place = (first + media.len()) as u64;
                    media.extend_from_slice(bytes);
                }
            }
        }
        let (header, media) = (self.header(&places), self.top("mdat", &media));
        match self.is_movie_first {
            true => [start, header, media].concat(),
            false => [start, media, header].concat(),
        }
    }
}

fn get32(bytes: &[u8], at: usize) -> usize {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// The samples of the track with the media header `kind`, by the tables after it. Chunk offsets have 32 bits.
pub fn samples(file: &[u8], kind: &[u8]) -> Vec<Vec<u8>> {
    let find = |name: &[u8], from: usize| {
        let found = file[from..].windows(4).position(|window| window == name);
        from + found.expect("the atom") + 4
    };
    let track = find(kind, 0);
    let (runs, sizes, places) = (
        find(b"stsc", track),
        find(b"stsz", track),
        find(b"stco", track),
    );
    let size = |sample: usize| get32(file, sizes + 12 + sample * 4);
    let (rows, chunks) = (get32(file, runs + 4), get32(file, places + 4));
    let mut samples = Vec::new();
    for chunk in 0..chunks {
        let mut row = (0..rows).map(|row| runs + 8 + row * 12);
        let run = row.rfind(|&at| get32(file, at) <= chunk + 1);
        let mut at = get32(file, places + 8 + chunk * 4);
        for _ in 0..get32(file, run.expect("a run") + 4) {
            let len = size(samples.len());
            samples.push(file[at..at + len].to_vec());
            at += len;
        }
    }
    assert_eq!(samples.len(), get32(file, sizes + 8), "the samples of stsz");
    samples
}
