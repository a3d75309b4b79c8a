//! proxy_store: answers saved as the files of their URIs.

use super::answer::Head;
use super::response_body::UpstreamBody;
use super::saved::{self, Temporary};
use crate::body::Body;
use crate::exchange::Exchange;
use crate::time::parse_http_date;
use crate::{template, vars};
use gallop_conf::model::{Level, StorePlace, UpConf};
use gallop_conf::parser::os_error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// Where the answer is saved, if it is.
fn place(ex: &Exchange, conf: &UpConf) -> Option<PathBuf> {
    let bytes = match conf.store.as_ref()? {
        StorePlace::Off => return None,
        StorePlace::On => {
            let mut path = Vec::new();
            vars::filename(ex, &mut path);
            path
        }
        StorePlace::Path(t) => template::eval(ex, t),
    };
    let usable = !bytes.is_empty() && !bytes.contains(&0) && !bytes.ends_with(b"/");
    usable.then(|| OsString::from_vec(bytes).into())
}

/// Saves the answer while it is sent; gives the body back if it is not saved.
pub fn save(
    ex: &Exchange,
    conf: &UpConf,
    head: &Head,
    body: UpstreamBody,
) -> Result<Body, Box<UpstreamBody>> {
    let wanted = head.status == 200 && ex.method() != b"HEAD" && !body.is_unbuffered();
    let Some(path) = place(ex, conf).filter(|_| wanted) else {
        return Err(Box::new(body));
    };
    let mode = conf.store_access.unwrap_or(0o600);
    let Some(folder) = path.parent() else {
        return Err(Box::new(body));
    };
    let temp = match Temporary::new(folder, mode) {
        Ok(temp) => temp,
        Err(e) => {
            let message = format!("cannot store \"{}\" ({})", path.display(), os_error(&e));
            ex.log(Level::Crit, &message);
            return Err(Box::new(body));
        }
    };
    let modified = head.get("last-modified").and_then(parse_http_date);
    let worker = ex.worker.clone();
    let finish = move |temp: Temporary, _| {
        if let Some(seconds) = modified.and_then(|t| u64::try_from(t).ok()) {
            // A file without its date is still good.
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let _ = temp.file.set_modified(date);
        }
        if let Err(e) = temp.place(&path) {
            let message = format!("rename() to \"{}\" failed ({e})", path.display());
            worker.log(Level::Crit, &message);
        }
    };
    let kept = Rc::default();
    Ok(saved::save(body, temp, 0, kept, Box::new(finish)))
}
