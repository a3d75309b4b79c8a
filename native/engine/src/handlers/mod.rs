//! Content handlers.

mod autoindex;
pub mod dav;
mod flv;
mod index;
mod mp4;
mod random_index;
mod small;
mod static_files;
mod status;
mod try_files;

use crate::exchange::Exchange;
use crate::phases::flow::Flow;

pub use flv::flv;
pub use mp4::mp4;
pub use small::{empty_gif, stub_status};
pub use static_files::content_type;
pub use status::status;
pub use try_files::try_files;

/// Serve files: an index for folders, a listing if allowed, otherwise the file itself.
pub async fn files(ex: &mut Exchange) -> Flow {
    if ex.uri.path.ends_with(b"/") {
        let flow = match random_index::find(ex) {
            Flow::Next => index::find(ex),
            flow => flow,
        };
        return match flow {
            Flow::Next => autoindex::list(ex),
            flow => flow,
        };
    }
    static_files::serve(ex)
}
