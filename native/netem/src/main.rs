//! paddock-netem: a link of given rate, delay and queue between two network namespaces.
//!
//!     paddock-netem run   --near=NS,IF,ADDR --far=NS,IF,ADDR [SHAPE]   carries packets until its input ends
//!     paddock-netem check --near=NS,IF,ADDR --far=NS,IF,ADDR [SHAPE]   measures the link that another one carries
//!
//! SHAPE: --bandwidth-kbit=N --rtt-us=N --jitter-us=N --loss-ppm=N --queue-packets=N, alike in both directions; the
//! jitter is each direction's. `run` says "ready", and what passed and what was dropped as JSON in the end.

mod forward;
mod measure;
mod pipe;
mod tun;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use pipe::Shape;
use tun::Place;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            let _ = writeln!(io::stderr(), "paddock-netem: {words}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let Some((command, options)) = arguments.split_first() else {
        return Err("say run or check; see the documentation".to_owned());
    };
    let wanted = Wanted::parse(options)?;
    match command.as_str() {
        "run" => carry(&wanted),
        "check" => {
            let found = measure::measure(&wanted.near, &wanted.far, &wanted.shape)?;
            say(&found.to_json())
        }
        other => Err(format!(
            "there is no command '{other}'; there are run and check"
        )),
    }
}

fn carry(wanted: &Wanted) -> Result<(), String> {
    let (near, far) = (opened(&wanted.near)?, opened(&wanted.far)?);
    precise_timers();
    let mut forwarder = forward::Forwarder::new(near, far, &wanted.shape);
    say("ready")?;
    forwarder
        .run()
        .map_err(|error| format!("the link broke: {error}"))?;
    say(&forwarder.report())
}

/// Use a separate thread, so that this one keeps its namespace; the interface stays in the other.
fn opened(place: &Place) -> Result<File, String> {
    let owned = place.clone();
    let made = thread::spawn(move || owned.enter().and_then(|()| owned.open())).join();
    let made = made.map_err(|_| "the thread that makes an interface failed".to_owned())?;
    made.map_err(|error| format!("{} in {}: {error}", place.interface, place.namespace))
}

/// Ask the kernel for exact wake-ups. By default, it may wake a thread up to 50 us late to save
/// power.
fn precise_timers() {
    // SAFETY: prctl with these arguments only changes the calling thread's timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

fn say(words: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{words}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

struct Wanted {
    near: Place,
    far: Place,
    shape: Shape,
}

impl Wanted {
    fn parse(options: &[String]) -> Result<Wanted, String> {
        let (mut near, mut far) = (None, None);
        let mut shape = Shape {
            rate_bps: 0,
            delay_ns: 0,
            jitter_ns: 0,
            loss_ppm: 0,
            queue_packets: 1000,
        };
        for option in options {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| format!("'{option}' is not --NAME=VALUE"))?;
            match name {
                "--near" => near = Some(Place::parse(value)?),
                "--far" => far = Some(Place::parse(value)?),
                "--bandwidth-kbit" => shape.rate_bps = number(name, value, 100_000_000)? * 1000,
                "--rtt-us" => shape.delay_ns = number(name, value, 60_000_000)? * 1000 / 2,
                "--jitter-us" => shape.jitter_ns = number(name, value, 60_000_000)? * 1000,
                "--loss-ppm" => shape.loss_ppm = number(name, value, 1_000_000)? as u32,
                "--queue-packets" => {
                    shape.queue_packets = number(name, value, 10_000_000)? as usize
                }
                _ => return Err(format!("there is no option '{name}'")),
            }
        }
        let need = |place: Option<Place>, name| {
            place.ok_or_else(|| format!("say {name}=NAMESPACE,INTERFACE,ADDRESS"))
        };
        Ok(Wanted {
            near: need(near, "--near")?,
            far: need(far, "--far")?,
            shape,
        })
    }
}

fn number(name: &str, value: &str, most: u64) -> Result<u64, String> {
    match value.parse::<u64>() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!(
            "{name} is '{value}'; it must be a whole number up to {most}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Wanted, String> {
        Wanted::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    const PLACES: &str = "--near=a,b0,10.0.0.1 --far=c,b1,10.0.0.2";

    #[test]
    fn options_become_a_shape() {
        let wanted = parsed(&format!(
            "{PLACES} --bandwidth-kbit=5000 --rtt-us=20000 --queue-packets=7"
        ))
        .unwrap();
        assert_eq!(wanted.shape.rate_bps, 5_000_000);
        assert_eq!(wanted.shape.delay_ns, 10_000_000);
        assert_eq!(wanted.shape.queue_packets, 7);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, part) in [
            ("--near=a,b0,10.0.0.1", "--far"),
            (&format!("{PLACES} --rtt-us=-1"), "--rtt-us"),
            (&format!("{PLACES} --loss-ppm=1000001"), "--loss-ppm"),
            (&format!("{PLACES} --speed=1"), "--speed"),
            (&format!("{PLACES} fast"), "fast"),
        ] {
            let error = parsed(words).err().unwrap_or_default();
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
