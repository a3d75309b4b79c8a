//! The bound on checks at the same time.

use gallop_runtime::Notify;
use std::cell::Cell;
use std::rc::Rc;

/// The most checks at once, whatever `worker_connections` allows.
const MOST: usize = 1024;

/// Places for checks: a quarter of the thread's connections, so that clients keep the others.
pub struct Places {
    free: Cell<usize>,
    returned: Notify,
}

/// A place that is free again when this is dropped.
pub struct Place(Rc<Places>);

impl Places {
    /// `connections`: the most connections of the thread.
    pub fn new(connections: usize) -> Places {
        Places {
            free: Cell::new((connections / 4).clamp(1, MOST)),
            returned: Notify::default(),
        }
    }

    /// Take a place as soon as one is free.
    pub async fn take(self: &Rc<Self>) -> Place {
        while self.free.get() == 0 {
            self.returned.reset();
            self.returned.wait().await;
        }
        self.free.set(self.free.get() - 1);
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get() + 1);
        self.0.returned.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_runtime::{race, sleep, Either, Runtime};

    #[test]
    fn check_waits_until_a_place_is_free() {
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let places = Rc::new(Places::new(8));
            let (first, _second) = (places.take().await, places.take().await);
            let third = race(places.take(), sleep(20)).await;
            assert!(matches!(third, Either::Second(())));
            drop(first);
            let third = race(places.take(), sleep(60_000)).await;
            assert!(matches!(third, Either::First(_)));
        });
    }
}
