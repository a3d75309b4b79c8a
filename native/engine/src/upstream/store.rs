//! proxy_store: answers saved as the files of their URIs.

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

/// Where the answer is saved, if it is.
fn place(ex: &Exchange, conf: &UpConf) -> Option<FilePath> {
    let path = match conf.store.as_ref()? {
        StorePlace::Off => return None,
        StorePlace::On => FilePath::of_request(ex),
        StorePlace::Path(t) => FilePath::of_template(ex, None, t),
    };
    // One that is refused is told of in the log; the client gets the answer all the same.
    path.ok()
        .filter(|path| !path.is_empty() && !path.ends_in_slash())
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
            // A file without its date is still good.
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
