//! Configuration errors in the words that nginx uses after `[emerg]`.

use std::fmt;
use std::sync::Arc;

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u32,
}

/// The reason for rejecting a configuration, and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfError {
    pub message: String,
    pub place: Option<Place>,
}

/// The place of directives from `-g`.
pub const COMMAND_LINE: &str = "command line";

pub type Result<T> = std::result::Result<T, ConfError>;

impl ConfError {
    pub fn new(message: impl Into<String>) -> Self {
        ConfError {
            message: message.into(),
            place: None,
        }
    }

    pub fn at(message: impl Into<String>, place: &Place) -> Self {
        ConfError {
            message: message.into(),
            place: Some(place.clone()),
        }
    }

    /// Set the place of an error that was raised without one.
    pub fn or_at(mut self, place: &Place) -> Self {
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.place {
            Some(p) if &*p.file == COMMAND_LINE => write!(f, " in {COMMAND_LINE}"),
            Some(p) => write!(f, " in {}:{}", p.file, p.line),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfError {}
