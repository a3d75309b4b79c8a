//! uwsgi and SCGI requests: the parameters as one block, then the body as it is.

use super::application::{write_params, ParamWriter};
use super::request::{body_length, BodyLength};
use crate::exchange::Exchange;
use gallop_conf::model::UpConf;

/// The largest block of uwsgi parameters: its length has 16 bits.
const MAX_UWSGI: usize = u16::MAX as usize;

/// The length of a uwsgi packet's header in bytes.
const UWSGI_HEADER: usize = 4;

/// uwsgi parameters: each name and value after its length in two bytes, the lower one first.
struct UwsgiBlock(Vec<u8>);

impl UwsgiBlock {
    fn text(&mut self, text: &[u8]) {
        // A longer text makes the whole block too big, which is an error anyway.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text);
    }
}

impl ParamWriter for UwsgiBlock {
    fn param(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(value);
    }
}

/// The uwsgi packet before the body.
///
/// # Errors
/// The parameters do not fit into a packet.
pub(super) fn uwsgi(ex: &Exchange, conf: &UpConf) -> Result<Vec<u8>, String> {
    let mut block = UwsgiBlock(vec![0; UWSGI_HEADER]);
    write_params(ex, conf, &mut block);
    let mut packet = block.0;
    if let Some(text) = &conf.uwsgi_string {
        packet.extend_from_slice(text.as_bytes());
    }
    let size = packet.len() - UWSGI_HEADER;
    let length = u16::try_from(size).map_err(|_| {
        format!("uwsgi request is too big: {size} bytes of parameters, at most {MAX_UWSGI} fit")
    })?;
    let [low, high] = length.to_le_bytes();
    // As in nginx, only the lowest byte of a modifier counts.
    let modifier = |value: Option<u64>| value.unwrap_or(0) as u8;
    packet[..UWSGI_HEADER].copy_from_slice(&[
        modifier(conf.modifier1),
        low,
        high,
        modifier(conf.modifier2),
    ]);
    Ok(packet)
}

/// SCGI parameters: each name and value with a NUL byte at its end.
struct ScgiBlock(Vec<u8>);

impl ScgiBlock {
    fn text(&mut self, text: &[u8]) {
        // A NUL byte would end the text early and shift all later names and values.
        self.0.extend(text.iter().filter(|&&c| c != 0));
        self.0.push(0);
    }
}

impl ParamWriter for ScgiBlock {
    fn param(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(value);
    }
}

/// The SCGI netstring before the body. Its first parameter is the body's length.
pub(super) fn scgi(ex: &Exchange, conf: &UpConf) -> Vec<u8> {
    let length = match body_length(ex, conf) {
        BodyLength::Known(length) if !ex.is_subrequest() => length,
        _ => 0,
    };
    let mut block = ScgiBlock(Vec::new());
    block.param(b"CONTENT_LENGTH", length.to_string().as_bytes());
    write_params(ex, conf, &mut block);
    let mut request = format!("{}:", block.0.len()).into_bytes();
    request.extend_from_slice(&block.0);
    request.push(b',');
    request
}
