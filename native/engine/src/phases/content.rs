//! The last phase: the handler of a request's location.

use super::flow::Flow;
use crate::exchange::Exchange;
use crate::handlers;
use gallop_conf::model::Handler;

/// Run the handler of the request's location.
pub(crate) async fn serve(ex: &mut Exchange) -> Flow {
    let loc = ex.loc.clone();
    match &loc.handler {
        Some(Handler::Flv) => match handlers::flv(ex) {
            Flow::Next => handlers::files(ex).await,
            flow => flow,
        },
        Some(Handler::Mp4) => match handlers::mp4(ex) {
            Flow::Next => handlers::files(ex).await,
            flow => flow,
        },
        Some(Handler::Proxy(pass)) => crate::upstream::proxy(ex, pass).await,
        Some(Handler::Application(pass)) => crate::upstream::application(ex, pass).await,
        Some(Handler::StubStatus) => handlers::stub_status(ex),
        Some(Handler::Status(format)) => handlers::status(ex, *format),
        Some(Handler::EmptyGif) => handlers::empty_gif(ex),
        None if ex.stranded => Flow::Status(500),
        None if handlers::dav::is_wanted(ex) => handlers::dav::serve(ex).await,
        None => handlers::files(ex).await,
    }
}
