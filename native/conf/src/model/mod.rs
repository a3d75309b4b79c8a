//! The typed configuration: immutable once built, shared by every connection.

mod cache;
mod confine;
mod http;
mod location;
mod main;
mod maps;
mod modules;
mod rewrite;
mod upstream;

pub use cache::*;
pub use confine::*;
pub use http::*;
pub use location::*;
pub use main::*;
pub use maps::*;
pub use modules::*;
pub use rewrite::*;
pub use upstream::*;

use std::sync::Arc;

/// A list that a level either has of its own or takes over whole from the level around it.
pub type List<T> = Option<Arc<Vec<T>>>;

/// Appends to a level's own list while it is built.
pub fn push<T: Clone>(list: &mut List<T>, item: T) {
    Arc::make_mut(list.get_or_insert_with(Arc::default)).push(item);
}

/// The items of a list, none when the list was never set.
pub fn items<T>(list: &List<T>) -> &[T] {
    list.as_deref().map_or(&[], Vec::as_slice)
}

/// Declares a struct of optional settings whose unset ones are taken from the level around it.
macro_rules! inherited {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name { $($(#[$fmeta])* pub $field: Option<$ty>),* }

        impl $name {
            /// Takes every setting that is not set here from `outer`.
            pub fn inherit(&mut self, outer: &$name) {
                $( if self.$field.is_none() { self.$field.clone_from(&outer.$field); } )*
            }
        }
    };
}
pub(crate) use inherited;
