//! The typed configuration: immutable after loading and shared by all connections.

mod cache;
mod confine;
mod health;
mod http;
mod location;
mod main;
mod maps;
mod modules;
mod rewrite;
mod sticky;
mod stream;
mod upstream;

pub use cache::*;
pub use confine::*;
pub use health::*;
pub use http::*;
pub use location::*;
pub use main::*;
pub use maps::*;
pub use modules::*;
pub use rewrite::*;
pub use sticky::*;
pub use stream::*;
pub use upstream::*;

use std::sync::Arc;

/// A list that a level either sets itself or inherits as a whole.
pub type List<T> = Option<Arc<Vec<T>>>;

/// Append to a level's own list.
pub fn push<T: Clone>(list: &mut List<T>, item: T) {
    Arc::make_mut(list.get_or_insert_with(Arc::default)).push(item);
}

/// The items of a list; empty if it was never set.
pub fn items<T>(list: &List<T>) -> &[T] {
    list.as_deref().map_or(&[], Vec::as_slice)
}

/// Declares a struct of optional settings; unset ones are inherited from the outer level.
macro_rules! inherited {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name { $($(#[$fmeta])* pub $field: Option<$ty>),* }

        impl $name {
            /// Take every setting that is unset here from `outer`.
            pub fn inherit(&mut self, outer: &$name) {
                $( if self.$field.is_none() { self.$field.clone_from(&outer.$field); } )*
            }
        }
    };
}
pub(crate) use inherited;
