//! `least_time`: estimates how long the servers of a group take for a request, with nginx's
//! formulas.

use gallop_conf::model::{LeastTime, Until};

/// Longer times count as this one, in milliseconds.
const LONGEST: u64 = 5000;
/// Times are rounded up to multiples of these milliseconds, so that similar servers take turns.
const STEP: u64 = 20;

/// The times of a server in milliseconds. The first four are moving averages, 0 if unknown.
#[derive(Clone, Debug, Default)]
pub struct Times {
    connect: u64,
    header: u64,
    response: u64,
    inflight: u64,
    /// Requests without a response, their waiting time until `changed`, and when their number
    /// changed.
    requests: u64,
    waited: u64,
    changed: u64,
}

fn average(old: u64, new: u64) -> u64 {
    match old {
        0 => new,
        old => (new + 19 * old + 10) / 20,
    }
}

impl Times {
    pub fn add(&mut self, until: Until, ms: u64) {
        let place = match until {
            Until::Connected => &mut self.connect,
            Until::FirstByte => &mut self.header,
            Until::LastByte => &mut self.response,
        };
        *place = average(*place, ms);
    }

    /// Count a request that waits for its response.
    pub fn begin(&mut self, now: u64) {
        self.waited += now.saturating_sub(self.changed) * self.requests;
        self.changed = now;
        self.requests += 1;
    }

    /// Stop counting a request that waited `lasted` milliseconds.
    pub fn end(&mut self, now: u64, lasted: u64) {
        let waited = self.waited + now.saturating_sub(self.changed) * self.requests;
        self.requests = self.requests.saturating_sub(1);
        self.waited = match self.requests {
            0 => 0,
            _ => waited.saturating_sub(lasted),
        };
        self.changed = now;
    }

    /// Drop the requests that wait; others count them.
    pub fn without_requests(&self) -> Times {
        Times {
            requests: 0,
            waited: 0,
            ..self.clone()
        }
    }

    /// Include the present waiting time of requests in the average.
    pub fn watch(&mut self, now: u64) {
        if let Some(each) = self.waited.checked_div(self.requests) {
            let waiting = each + now.saturating_sub(self.changed);
            self.inflight = average(self.inflight, waiting);
        }
    }

    /// The milliseconds until a server has finished its requests and another one. `age`:
    /// milliseconds since the server was last chosen.
    pub fn estimate(&self, rule: LeastTime, age: u64, fail_timeout: u64, connections: u32) -> u64 {
        let mut time = match rule.until {
            Until::Connected => self.connect,
            Until::FirstByte => self.header,
            Until::LastByte => self.response,
        };
        if age > fail_timeout {
            // A slow server gets another chance.
            let halvings = age / 1000 / (fail_timeout / 1000 + 1);
            let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
            time = time.checked_shr(halvings).unwrap_or(0);
        }
        if self.requests > 0 {
            time = time.max(self.inflight);
        }
        let time = match time {
            ..=LONGEST => time + STEP - time % STEP,
            _ => LONGEST,
        };
        time * (1 + u64::from(connections))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: LeastTime = LeastTime {
        until: Until::FirstByte,
        inflight: true,
    };

    #[test]
    fn estimate_follows_average_connections_and_age() {
        let mut times = Times::default();
        assert_eq!(times.estimate(HEADER, 0, 10_000, 0), 20);
        times.add(Until::FirstByte, 100);
        assert_eq!(times.estimate(HEADER, 0, 10_000, 0), 120);
        assert_eq!(times.estimate(HEADER, 0, 10_000, 2), 360);
        times.add(Until::FirstByte, 300);
        assert_eq!(times.estimate(HEADER, 0, 10_000, 0), 120, "110 on average");
        assert_eq!(times.estimate(HEADER, 11_000, 10_000, 0), 60, "halved once");
        assert_eq!(times.estimate(HEADER, 99_000_000, 0, 0), 20);
        times.add(Until::LastByte, 90_000);
        let last = LeastTime {
            until: Until::LastByte,
            ..HEADER
        };
        assert_eq!(times.estimate(last, 0, 10_000, 1), 10_000);
    }

    #[test]
    fn waiting_requests_raise_the_estimate_until_they_end() {
        let mut times = Times::default();
        times.begin(1000);
        times.begin(2000);
        times.watch(3000);
        assert_eq!(times.inflight, 1500);
        assert_eq!(times.estimate(HEADER, 0, 10_000, 0), 1520);
        times.end(3000, 2000);
        assert_eq!((times.requests, times.waited), (1, 1000));
        times.end(4000, 2000);
        assert_eq!(times.estimate(HEADER, 0, 10_000, 0), 20);
    }
}
