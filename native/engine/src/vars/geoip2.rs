//! Variables of `geoip2` blocks.

use super::computed::through_proxies;
use crate::log;
use crate::scope::Scope;
use crate::template;
use crate::worker::Shared;
use gallop_conf::mmdb::Database;
use gallop_conf::model::{items, Datum, Geoip2, Level};
use std::net::IpAddr;
use std::sync::Arc;

/// The value of a variable; `None` if the database has none and there is no default.
pub fn value<S: Scope + ?Sized>(scope: &S, lookup: &Geoip2) -> Option<Vec<u8>> {
    reread(&scope.worker().shared, &lookup.database);
    match &lookup.datum {
        Datum::Metadata(what) => Some(lookup.database.metadata(*what).to_string().into()),
        Datum::Field(path) => {
            let found = address(scope, lookup).and_then(|ip| lookup.database.value(ip, path));
            found.or_else(|| lookup.default.as_ref().map(|value| value.to_vec()))
        }
    }
}

fn address<S: Scope + ?Sized>(scope: &S, lookup: &Geoip2) -> Option<IpAddr> {
    if let Some(source) = &lookup.source {
        let text = template::eval(scope, source);
        return std::str::from_utf8(&text).ok()?.parse().ok();
    }
    let conf = scope.settings();
    let recursive = conf.geoip2_proxy_recursive.unwrap_or(false);
    let proxies = items(&conf.geoip2_proxy);
    through_proxies(scope, proxies, recursive, scope.client())
}

/// `auto_reload`: look at the file in a thread, since the disk may be slow.
fn reread(shared: &Arc<Shared>, database: &Arc<Database>) {
    if !database.claim() {
        return;
    }
    let (shared, own) = (shared.clone(), database.clone());
    let work = move || {
        let path = own.path.display();
        let (level, message) = match own.refresh() {
            Ok(false) => return,
            Ok(true) => (Level::Info, format!("Reload MMDB \"{path}\"")),
            Err(e) => {
                let message = format!("MMDB_open(\"{path}\") failed to reload - {e}");
                (Level::Error, message)
            }
        };
        log::error_to(&shared.error_log, level, &message);
    };
    let name = "database".to_string();
    if std::thread::Builder::new().name(name).spawn(work).is_err() {
        // Without threads, the former content stays; the next look is due later.
        database.end_look();
    }
}
