//! What comes after a phase or handler of a request.

/// The next step of a request after a phase or handler.
#[derive(Debug)]
pub enum Flow {
    /// Continue with the next phase.
    Next,
    /// The response is complete in `response`.
    Done,
    /// Respond with the error page of this status, or follow `error_page`.
    Status(u16),
    /// Process this URI as if the client had requested it.
    Internal {
        uri: Vec<u8>,
        args: Option<Vec<u8>>,
    },
    Named(String),
    /// Close the connection without a response.
    Close,
}
