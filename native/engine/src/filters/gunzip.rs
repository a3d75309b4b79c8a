//! gunzip: decompresses responses for clients that do not accept gzip.

use super::transform::{Transform, Transformed};
use crate::exchange::Exchange;
use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

pub fn apply(ex: &mut Exchange) {
    if ex.loc.conf.gunzip != Some(true) {
        return;
    }
    let coding = ex.response.header("content-encoding");
    if !coding.is_some_and(|c| c.eq_ignore_ascii_case(b"gzip")) {
        return;
    }
    ex.response.gzip_vary = true;
    if super::gzip_accepted(ex) {
        return;
    }
    let r = &mut ex.response;
    r.remove_header("Content-Encoding");
    r.filterable = true;
    super::body_changes(r);
    if ex.header_only {
        return;
    }
    let inner = std::mem::take(&mut ex.response.body);
    let gunzip = Gunzip(MultiGzDecoder::new(Vec::new()));
    ex.response.body = Transformed::body(inner, gunzip);
}

struct Gunzip(MultiGzDecoder<Vec<u8>>);

/// The input bytes per step, which limits the output of a step.
const STEP: usize = 4096;

impl Transform for Gunzip {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for part in data.chunks(STEP) {
            self.0.write_all(part)?;
            out.append(self.0.get_mut());
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.flush()?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.try_finish()?;
        out.append(self.0.get_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{write::GzEncoder, Compression};

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("into memory");
        encoder.finish().expect("into memory")
    }

    #[test]
    fn members_in_a_row_are_one_text() {
        let mut gunzip = Gunzip(MultiGzDecoder::new(Vec::new()));
        let mut out = Vec::new();
        let bytes = [gzipped(b"one "), gzipped(b"two")].concat();
        for byte in &bytes {
            gunzip.push(&[*byte], &mut out).expect("whole");
        }
        gunzip.finish(&mut out).expect("whole");
        assert_eq!(out, b"one two");
    }

    #[test]
    fn a_cut_off_body_is_an_error() {
        let mut gunzip = Gunzip(MultiGzDecoder::new(Vec::new()));
        let bytes = gzipped(b"some text");
        let mut out = Vec::new();
        let cut = gunzip.push(&bytes[..bytes.len() - 6], &mut out);
        assert!(cut.is_err() || gunzip.finish(&mut out).is_err());
    }
}
