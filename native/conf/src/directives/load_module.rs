//! `load_module`: gallop loads no code, but has the directives of some modules that nginx loads.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::parser::Directive;

/// The dynamic modules whose directives gallop has, as distributions name their files.
const BUILT_IN: [&str; 7] = [
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    "ngx_http_geoip2_module",
    "ngx_stream_module",
    "ngx_stream_geoip2_module",
];

/// Starts of the names of other modules, and the advice for them.
const ADVICE: [(&str, &str); 6] = [
    (
        "ngx_stream_geoip",
        "use \"geoip2\" with a MaxMind database, or list the networks in a \"geo\" block",
    ),
    (
        "ngx_mail",
        "gallop has no \"mail\" block; let another server forward these ports",
    ),
    (
        "ngx_http_geoip",
        "use \"geoip2\" with a MaxMind database, or list the networks in a \"geo\" block",
    ),
    (
        "ngx_http_headers_more",
        "use \"add_header\" and \"server_product\" instead",
    ),
    ("ngx_http_subs_filter", "use \"sub_filter\" instead"),
    ("ngx_http_upstream_fair", "use \"least_time\" instead"),
];

pub(super) fn load_module(b: &mut Builder, d: &Directive) -> Result<()> {
    if ["events", "http", "stream"]
        .iter()
        .any(|name| b.seen.contains(name))
    {
        let message = "\"load_module\" directive is specified too late";
        return Err(ConfError::new(message));
    }
    let path = &d.args()[0];
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.strip_suffix(".so").unwrap_or(file);
    let Some(&known) = BUILT_IN.iter().find(|known| **known == name) else {
        return Err(ConfError::new(refusal(name)));
    };
    if b.seen.contains(&known) {
        let message = format!("module \"{known}\" is already loaded");
        return Err(ConfError::new(message));
    }
    b.seen.push(known);
    let message = format!("module \"{known}\" is built into gallop, so \"{path}\" is not loaded");
    b.note(message, &d.place);
    Ok(())
}

/// The error for a module that gallop does not have.
fn refusal(name: &str) -> String {
    let advice = ADVICE.iter().find(|(start, _)| name.starts_with(start));
    let advice = advice.map_or(String::new(), |(_, advice)| format!("; {advice}"));
    format!(
        "module \"{name}\" is not built into gallop, which cannot load modules; remove this line \
         and the module's directives{advice} (built in: {})",
        BUILT_IN.join(", ")
    )
}
