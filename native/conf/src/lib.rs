//! nginx's configuration syntax: lexer, parser, directive table, and typed configuration. This
//! crate opens no network connections.

pub mod builder;
pub mod cidr;
pub mod directives;
mod error;
mod finish;
pub mod geo;
pub mod lexer;
mod lint;
pub mod listen;
pub mod locations;
pub mod mmdb;
pub mod model;
pub mod names;
pub mod parser;
pub mod pattern;
pub mod reference;
mod relations;
pub mod table;
pub mod template;
pub mod values;
pub mod vars;

pub use error::{ConfError, Place, Result};
pub use finish::{load, load_text, load_with_remarks, Seen};
