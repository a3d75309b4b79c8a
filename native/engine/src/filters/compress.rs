//! Compression with brotli and zstd during sending, for clients that prefer them over gzip.

use super::gzip::lists;
use super::transform::{Transform, Transformed};
use crate::exchange::Exchange;
use brotli::CompressorWriter;
use gallop_conf::model::{Coding, CodingConf};
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// The binary logarithm of brotli's window, 512 KB, as in its nginx module.
const WINDOW_BITS: u64 = 19;
/// The size of brotli's output buffer in bytes.
const BUFFER: usize = 4096;

/// Whether the client accepts the coding.
pub fn accepted(ex: &Exchange, coding: Coding) -> bool {
    let field = ex.head.get("accept-encoding");
    !ex.is_subrequest() && field.is_some_and(|f| lists(f, coding.name()))
}

/// Compress with the first enabled coding that the client accepts.
pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    for coding in Coding::ALL {
        let conf = match coding {
            Coding::Brotli => &loc.conf.brotli,
            Coding::Zstd => &loc.conf.zstd,
        };
        let Some(conf) = conf else { continue };
        if !is_eligible(ex, conf) {
            continue;
        }
        ex.response.gzip_vary = true;
        if accepted(ex, coding) {
            return compress(ex, coding, conf);
        }
    }
}

fn is_eligible(ex: &Exchange, conf: &CodingConf) -> bool {
    let r = &ex.response;
    conf.on == Some(true)
        && matches!(r.status, 200 | 403 | 404)
        && r.header("content-encoding").is_none()
        && r.content_length
            .is_none_or(|n| n >= conf.min_length.unwrap_or(20))
        && r.filterable
        && super::is_of_types(r, &conf.types)
}

fn compress(ex: &mut Exchange, coding: Coding, conf: &CodingConf) {
    let encoder = match coding {
        Coding::Brotli => {
            let level = conf.level.unwrap_or(6) as u32;
            let window = conf.window.unwrap_or(WINDOW_BITS) as u32;
            let writer = CompressorWriter::new(Vec::new(), BUFFER, level, window);
            Ok(Compress::Brotli(Some(Box::new(writer))))
        }
        Coding::Zstd => Encoder::new(Vec::new(), conf.level.unwrap_or(1) as i32)
            .map(|encoder| Compress::Zstd(Some(Box::new(encoder)))),
    };
    // Without memory for an encoder, the response is sent uncompressed.
    let Ok(encoder) = encoder else { return };
    super::body_changes(&mut ex.response);
    ex.response
        .add_header("Content-Encoding", coding.name().as_bytes());
    if !ex.header_only {
        let inner = std::mem::take(&mut ex.response.body);
        ex.response.body = Transformed::body(inner, encoder);
    }
}

enum Compress {
    /// `None` after the end was written.
    Brotli(Option<Box<CompressorWriter<Vec<u8>>>>),
    Zstd(Option<Box<Encoder<'static, Vec<u8>>>>),
}

/// The least number of compressed bytes to send before more come.
const PIECE: usize = 4096;

impl Compress {
    fn writer(&mut self) -> Option<&mut dyn Write> {
        match self {
            Compress::Brotli(writer) => writer.as_mut().map(|w| w as &mut dyn Write),
            Compress::Zstd(writer) => writer.as_mut().map(|w| w as &mut dyn Write),
        }
    }

    /// Move the compressed bytes to `out` if there are at least this many.
    fn give(&mut self, least: usize, out: &mut Vec<u8>) {
        let made = match self {
            Compress::Brotli(Some(writer)) => writer.get_mut(),
            Compress::Zstd(Some(writer)) => writer.get_mut(),
            _ => return,
        };
        if made.len() >= least {
            out.append(made);
        }
    }
}

impl Transform for Compress {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(writer) = self.writer() {
            writer.write_all(data)?;
        }
        self.give(PIECE, out);
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(writer) = self.writer() {
            writer.flush()?;
        }
        self.give(0, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Compress::Brotli(writer) => {
                out.extend(writer.take().map(|w| w.into_inner()).unwrap_or_default());
            }
            Compress::Zstd(writer) => {
                if let Some(encoder) = writer.take() {
                    out.extend(encoder.finish()?);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn run(mut compress: Compress, pieces: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            compress.push(piece, &mut out).expect("into memory");
            compress.flush(&mut out).expect("into memory");
        }
        compress.finish(&mut out).expect("into memory");
        out
    }

    #[test]
    fn brotli_of_pieces_is_one_stream() {
        let text = "some text ".repeat(1000);
        let pieces = [&text.as_bytes()[..5], &text.as_bytes()[5..]];
        let writer = CompressorWriter::new(Vec::new(), BUFFER, 6, WINDOW_BITS as u32);
        let packed = run(Compress::Brotli(Some(Box::new(writer))), &pieces);
        let mut plain = String::new();
        brotli::Decompressor::new(&packed[..], 4096)
            .read_to_string(&mut plain)
            .expect("whole");
        assert_eq!(plain, text);
        let encoder = Encoder::new(Vec::new(), 1).expect("an encoder");
        let packed = run(Compress::Zstd(Some(Box::new(encoder))), &pieces);
        let plain = zstd::decode_all(&packed[..]).expect("whole");
        assert_eq!(plain, text.as_bytes());
    }
}
