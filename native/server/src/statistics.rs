//! Counters that the master keeps across workers and reloads.

use crate::master::threads;
use gallop_conf::model::Config;
use gallop_engine::metrics::{Generation, History, Snapshot};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Statistics {
    current: Arc<Generation>,
    /// Configurations that still have workers.
    before: Vec<Arc<Generation>>,
    /// The counts of configurations without workers.
    carried: Snapshot,
    started: u64,
    loaded: u64,
    number: u64,
}

fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

fn generation(config: &Config, before: Option<&Generation>) -> Result<Arc<Generation>, String> {
    let made = Generation::new(config, threads(config), before);
    made.map(Arc::new)
        .map_err(|e| format!("mmap() of the counters failed ({e})"))
}

impl Statistics {
    pub fn new(config: &Config) -> Result<Statistics, String> {
        let now = seconds();
        Ok(Statistics {
            current: generation(config, None)?,
            before: Vec::new(),
            carried: Snapshot::default(),
            started: now,
            loaded: now,
            number: 1,
        })
    }

    /// Count for another configuration from now on.
    pub fn reload(&mut self, config: &Config) -> Result<(), String> {
        let next = generation(config, Some(&self.current))?;
        self.before.push(std::mem::replace(&mut self.current, next));
        self.loaded = seconds();
        self.number += 1;
        Ok(())
    }

    /// The counters for workers that start now.
    pub fn current(&self) -> &Arc<Generation> {
        &self.current
    }

    /// The history that a new worker needs.
    pub fn history(&self) -> History {
        History {
            current: self.current.clone(),
            before: self.before.clone(),
            carried: self.carried.clone(),
            started: self.started,
            loaded: self.loaded,
            number: self.number,
        }
    }

    /// Handle the end of a configuration's last worker: its open connections are closed, its counts
    /// stay.
    pub fn ended(&mut self, generation: &Arc<Generation>) {
        generation.clear_gauges();
        if let Some(i) = self.before.iter().position(|g| Arc::ptr_eq(g, generation)) {
            self.carried.merge(&self.before.remove(i).read());
        }
    }
}
