//! MP4 files from one time to another (`mp4`): `?start=` and `?end=` are seconds.

use super::static_files::{requested_file, send, send_instead};
use crate::body::{read_range, Chunk};
use crate::exchange::Exchange;
use crate::files::FilePath;
use crate::mp4::{self, Error, Plan, Wanted};
use crate::phases::flow::Flow;
use crate::vars::argument;
use bytes::Bytes;
use gallop_conf::model::Level;
use std::fs::File;
use std::sync::Arc;

/// Serve the file, or the part that the arguments ask for. [`Flow::Next`] if the path is that of a folder.
pub fn mp4(ex: &mut Exchange) -> Flow {
    let (path, file, meta) = match requested_file(ex) {
        Ok(opened) => opened,
        Err(flow) => return flow,
    };
    let wanted = wanted(ex);
    let plan = match wanted.map(|wanted| plan(ex, &path, (&file, meta.len()), &wanted)) {
        Some(Err(flow)) => return flow,
        Some(Ok(plan)) => plan,
        None => None,
    };
    let file = Arc::new(file);
    send(ex, file.clone(), &meta);
    ex.response.allow_ranges = true;
    ex.response.single_range = wanted.is_some();
    if let Some(plan) = plan {
        let part = Chunk::File {
            file,
            offset: plan.from,
            len: plan.to - plan.from,
        };
        send_instead(ex, [Chunk::Data(Bytes::from(plan.head)), part], &meta);
    }
    Flow::Done
}

/// The part that the arguments ask for, if they ask for one.
fn wanted(ex: &Exchange) -> Option<Wanted> {
    let time = |name| argument(&ex.uri.args, name).and_then(milliseconds);
    let (start, end) = (time("start"), time("end").filter(|&end| end > 0));
    if start.is_none() && end.is_none() {
        return None;
    }
    let start = start.unwrap_or(0);
    let conf = &ex.loc.conf;
    Some(Wanted {
        start,
        length: end.map_or(0, |end| end.saturating_sub(start)),
        start_key_frame: conf.mp4_start_key_frame == Some(true),
        buffer_size: conf.mp4_buffer_size.unwrap_or(512 << 10),
        max_buffer_size: conf.mp4_max_buffer_size.unwrap_or(10 << 20),
    })
}

/// Seconds with a fraction, of which three digits count.
fn milliseconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let (mut value, mut places, mut after_dot) = (0i64, 3, false);
    for &c in text {
        match c {
            b'.' if after_dot => return None,
            b'.' => after_dot = true,
            b'0'..=b'9' if places == 0 => {}
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(i64::from(c - b'0'))?;
                places -= u32::from(after_dot);
            }
            _ => return None,
        }
    }
    let value = value.checked_mul(10i64.pow(places))?;
    u64::try_from(value).ok()
}

/// The part to send; `None` if the file is sent as it is.
fn plan(
    ex: &Exchange,
    path: &FilePath,
    file: (&File, u64),
    wanted: &Wanted,
) -> Result<Option<Plan>, Flow> {
    let (file, size) = file;
    let mut read =
        |offset, len: usize, out: &mut Vec<u8>| read_range(file, offset, len as u64, out);
    match mp4::plan(size, wanted, &mut read) {
        Ok(plan) => Ok(Some(plan)),
        Err(Error::Whole) => Ok(None),
        Err(e) => {
            let level = match e {
                Error::Read(_) => Level::Crit,
                _ => Level::Error,
            };
            ex.log(level, &e.text(&path.display()));
            Err(Flow::Status(500))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn times_are_read_as_nginx_reads_them() {
        let read = |text: &str| milliseconds(text.as_bytes());
        for (text, time) in [
            ("0", 0),
            (".", 0),
            ("1", 1000),
            ("1.", 1000),
            (".5", 500),
            ("1.2345678901234567890123", 1234),
            ("9223372036854775", 9_223_372_036_854_775_000),
            ("007.5", 7500),
        ] {
            assert_eq!(read(text), Some(time), "{text}");
        }
        for text in [
            "",
            "x",
            "-1",
            "+1",
            "1..5",
            "1.5x",
            "1e3",
            "9223372036854776",
            "99999999999999999999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
