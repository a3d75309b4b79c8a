//! What settings of one level must be to each other, as nginx checks them where levels are merged.

use crate::error::{ConfError, Place, Result};
use crate::model::{LocConf, SrvConf, UpConf};
use crate::template::Template;

const PAGE: u64 = 4096;

/// # Errors
/// Settings that do not go together; the place is that of the block they hold for.
pub fn check_location(conf: &LocConf, place: &Place) -> Result<()> {
    for (prefix, up) in [("proxy", &conf.proxy), ("fastcgi", &conf.fastcgi)] {
        if let Some(problem) = up.as_ref().and_then(|up| buffers(prefix, up)) {
            return Err(ConfError::at(problem, place));
        }
    }
    Ok(())
}

/// What is wrong with the buffers of a `proxy` or `fastcgi` location.
fn buffers(prefix: &str, conf: &UpConf) -> Option<String> {
    let (number, each) = conf.buffers.unwrap_or((8, PAGE));
    let largest = conf.buffer_size.unwrap_or(PAGE).max(each);
    let busy = conf.busy_buffers_size.unwrap_or(largest.saturating_mul(2));
    let written = conf
        .temp_file_write_size
        .unwrap_or(largest.saturating_mul(2));
    let file = conf.max_temp_file_size.unwrap_or(1 << 30);
    let maximum = format!(
        "the maximum of the value of \"{prefix}_buffer_size\" and one of the \"{prefix}_buffers\""
    );
    let at_least = "must be equal to or greater than";
    if number < 2 {
        return Some(format!("there must be at least 2 \"{prefix}_buffers\""));
    }
    if busy < largest {
        return Some(format!(
            "\"{prefix}_busy_buffers_size\" {at_least} {maximum}"
        ));
    }
    if busy > (number - 1).saturating_mul(each) {
        return Some(format!(
            "\"{prefix}_busy_buffers_size\" must be less than the size of all \"{prefix}_buffers\" minus one buffer"
        ));
    }
    if written < largest {
        return Some(format!(
            "\"{prefix}_temp_file_write_size\" {at_least} {maximum}"
        ));
    }
    (file != 0 && file < largest).then(|| {
        format!(
            "\"{prefix}_max_temp_file_size\" must be equal to zero to disable temporary files usage \
             or {at_least} {maximum}"
        )
    })
}

/// # Errors
/// Settings of a server block that do not go together.
pub fn check_server(conf: &SrvConf, place: &Place) -> Result<()> {
    let (_, line) = conf.large_client_header_buffers.unwrap_or((4, 8192));
    if line
        < conf
            .connection_pool_size
            .unwrap_or(64 * size_of::<usize>() as u64)
    {
        let message = "the \"large_client_header_buffers\" size must be equal to or greater than \
                       \"connection_pool_size\"";
        return Err(ConfError::at(message, place));
    }
    let certificates = crate::model::items(&conf.ssl_certificate);
    if crate::model::items(&conf.ssl_certificate_key).len() < certificates.len() {
        let last = certificates.last().and_then(Template::as_literal);
        let last = String::from_utf8_lossy(last.unwrap_or_default());
        // Without a place, as in nginx.
        return Err(ConfError {
            message: format!("no \"ssl_certificate_key\" is defined for certificate \"{last}\""),
            place: None,
        });
    }
    Ok(())
}
