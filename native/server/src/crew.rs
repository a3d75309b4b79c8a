//! The serving threads of a worker process. When one panics, its connections end, the other threads
//! go on, and a new thread replaces it.

use gallop_conf::model::{ErrorLog, Level};
use gallop_engine::log;
use gallop_runtime::{now_ms, Handle};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The shortest time in milliseconds between two starts of the same thread. A thread that ran
/// longer restarts at once.
pub const RESTART_MS: u64 = 1000;

/// The way a thread ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The thread was told to end, and its connections have ended.
    Finished,
    /// The thread could not begin to serve, or it panicked.
    Failed,
}

/// Handles that wake the event loops of the running threads.
pub type Handles = Arc<Mutex<Vec<Option<Handle>>>>;

/// Builds the main function of a thread. The starting thread calls it with the new thread's number.
pub type Prepare<'a> = Box<dyn Fn(usize) -> Box<dyn FnOnce() -> End + Send> + 'a>;

struct Seat {
    /// `None` while no thread runs.
    join: Option<JoinHandle<()>>,
    /// Start time in milliseconds (monotonic clock).
    started: u64,
    /// The time of the next start in milliseconds (monotonic clock).
    due: Option<u64>,
}

/// The threads of a worker process.
pub struct Crew<'a> {
    seats: Vec<Seat>,
    prepare: Prepare<'a>,
    /// Receives the number and result of each thread that ends.
    sender: Sender<(usize, End)>,
    ends: Receiver<(usize, End)>,
    handles: Handles,
    logs: &'a [ErrorLog],
    /// Wakes the thread that waits for signals after a thread has ended.
    notify: fn(),
}

impl<'a> Crew<'a> {
    pub fn new(
        count: usize,
        handles: Handles,
        prepare: Prepare<'a>,
        logs: &'a [ErrorLog],
        notify: fn(),
    ) -> Crew<'a> {
        let seat = |_| Seat {
            join: None,
            started: 0,
            due: Some(0),
        };
        let (sender, ends) = channel();
        let mut crew = Crew {
            seats: (0..count).map(seat).collect(),
            prepare,
            sender,
            ends,
            handles,
            logs,
            notify,
        };
        crew.tend(false);
        crew
    }

    /// Collect the threads that have ended and start those that are due. While the process quits,
    /// none is started.
    pub fn tend(&mut self, quitting: bool) {
        while let Ok((index, end)) = self.ends.try_recv() {
            self.ended(index, end);
        }
        let now = now_ms();
        for index in 0..self.seats.len() {
            let seat = &mut self.seats[index];
            if quitting {
                seat.due = None;
            } else if seat.due.is_some_and(|due| due <= now) {
                self.start(index, now);
            }
        }
    }

    fn ended(&mut self, index: usize, end: End) {
        let seat = &mut self.seats[index];
        if let Some(join) = seat.join.take() {
            // The panic was already caught and logged.
            let _ = join.join();
        }
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get_mut(index) {
            *handle = None;
        }
        if end == End::Failed {
            seat.due = Some(now_ms().max(seat.started + RESTART_MS));
            let message = format!("worker {index} ended and is started again");
            log::error_to(self.logs, Level::Alert, &message);
        }
    }

    fn start(&mut self, index: usize, now: u64) {
        let work = (self.prepare)(index);
        let (sender, notify) = (self.sender.clone(), self.notify);
        let thread = Builder::new().name(format!("worker {index}"));
        let spawned = thread.spawn(move || {
            let end = catch_unwind(AssertUnwindSafe(work)).unwrap_or(End::Failed);
            // Receiving cannot fail while the process waits for its threads.
            let _ = sender.send((index, end));
            notify();
        });
        let seat = &mut self.seats[index];
        (seat.started, seat.due) = (now, None);
        match spawned {
            Ok(join) => seat.join = Some(join),
            Err(e) => {
                seat.due = Some(now + RESTART_MS);
                let message = format!("pthread_create() failed for worker {index} ({e})");
                log::error_to(self.logs, Level::Alert, &message);
            }
        }
    }

    /// Milliseconds until the next thread start; `None` if all threads run.
    pub fn next_start(&self) -> Option<u64> {
        let due = self.seats.iter().filter_map(|seat| seat.due).min()?;
        Some(due.saturating_sub(now_ms()))
    }

    /// Whether no thread runs and none will start.
    pub fn is_over(&self) -> bool {
        let over = |seat: &Seat| seat.join.is_none() && seat.due.is_none();
        self.seats.iter().all(over)
    }
}
