//! proxy_store: saves responses as files with the paths of their URIs.

use super::answer::Head;
use super::response_body::UpstreamBody;
use super::saved::{self, Temporary};
use crate::body::Body;
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::time::parse_http_date;
use gallop_conf::model::{Level, StorePlace, UpConf};
use gallop_conf::parser::os_error;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// The path for the response if it is saved.
fn place(ex: &Exchange, conf: &UpConf) -> Option<FilePath> {
    let path = match conf.store.as_ref()? {
        StorePlace::Off => return None,
        StorePlace::On => FilePath::of_request(ex),
        StorePlace::Path(t) => FilePath::of_template(ex, None, t),
    };
    // The log reports a rejected path; the client gets the response nevertheless.
    path.ok()
        .filter(|path| !path.is_empty() && !path.ends_in_slash())
}

/// Save the response while it is sent; return the body unchanged if it is not saved.
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
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Box::new(body));
    };
    let made = files::folder_to_save(&ex.loc.conf, folder)
        .and_then(|folder| Ok((Temporary::new(&folder.path, mode)?, folder)));
    let (temp, folder) = match made {
        Ok(made) => made,
        Err(e) => {
            let message = format!("cannot store \"{}\" ({})", path.display(), os_error(&e));
            ex.log(Level::Crit, &message);
            return Err(Box::new(body));
        }
    };
    let modified = head.get("last-modified").and_then(parse_http_date);
    let worker = ex.worker.clone();
    let to = folder.path.join(name);
    let finish = move |temp: Temporary, _| {
        if let Some(seconds) = modified.and_then(|t| u64::try_from(t).ok()) {
            // A file without the correct date is still usable.
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let _ = temp.file.set_modified(date);
        }
        let placed = temp.place(&to);
        drop(folder);
        if let Err(e) = placed {
            let message = format!("rename() to \"{}\" failed ({e})", path.display());
            worker.log(Level::Crit, &message);
        }
    };
    let kept = Rc::default();
    Ok(saved::save(body, temp, 0, kept, Box::new(finish)))
}
