//! FastCGI requests.

use super::application::{write_params, ParamWriter};
use crate::exchange::Exchange;
use gallop_conf::model::UpConf;
use gallop_http::fastcgi::{Begin, RequestWriter, Role};

/// Set the variables for script name and path info.
pub(super) fn split_path(ex: &mut Exchange, conf: &UpConf) {
    (ex.fastcgi_script_name, ex.fastcgi_path_info) = split(&ex.uri.path, conf);
}

/// The URI's script name and path info under a location's settings; each is `None` if the settings
/// leave the URI unchanged. Variables such as `$fastcgi_script_name` in `try_files` need them
/// before the handler runs.
pub fn split(uri: &[u8], conf: &UpConf) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    if let Some(groups) = conf.split_path_info.as_ref().and_then(|p| p.captures(uri)) {
        let group = |i: usize| {
            groups
                .get(i)
                .copied()
                .flatten()
                .map(|(a, z)| uri[a..z].to_vec())
        };
        return (group(1), group(2));
    }
    match &conf.index {
        Some(index) if uri.ends_with(b"/") => (Some([uri, index.as_bytes()].concat()), None),
        _ => (None, None),
    }
}

impl ParamWriter for RequestWriter {
    fn param(&mut self, name: &[u8], value: &[u8]) {
        RequestWriter::param(self, name, value);
    }
}

/// The records before the body.
pub fn encode(ex: &Exchange, conf: &UpConf) -> Vec<u8> {
    let mut writer = RequestWriter::default();
    write(ex, conf, &mut writer);
    writer.into_bytes()
}

/// Like [`encode`], with a writer that keeps its memory.
pub fn write(ex: &Exchange, conf: &UpConf, writer: &mut RequestWriter) {
    let keep_connection = conf.keep_conn.unwrap_or(false);
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection,
    });
    write_params(ex, conf, writer);
    writer.end_params();
}
