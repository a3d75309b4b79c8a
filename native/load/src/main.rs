//! gallop-load: a load generator for HTTP/3. One thread; sockets are polled, datagrams move in batches.

mod connection;
mod group;
mod histogram;
mod options;
mod plan;
mod trust;

use connection::Asking;
use gallop_http::h3::send;
use gallop_http::qpack;
use group::{transport, Group};
use options::Options;
use plan::Plan;
use quinn_proto::ClientConfig;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait: timers of a connection that just began are not known yet.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Without any answer for so long the run ends.
const STALLED: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "-h" || arg == "--help") {
        print!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    let run = options::parse(std::env::args().skip(1)).and_then(|options| {
        let plan = run(&options)?;
        print!(
            "{}",
            if options.json {
                plan.json()
            } else {
                plan.text()
            }
        );
        Ok(plan.failed == 0 && plan.succeeded > 0)
    });
    match run {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("gallop-load: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The HEADERS frame that every request consists of.
fn request_frame(options: &Options) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode_prefix(&mut section);
    let pseudo = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &options.host),
        (":path", &options.path),
        ("user-agent", "gallop-load"),
    ];
    let more = options.fields.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    for (name, value) in pseudo.into_iter().chain(more) {
        qpack::encode_field(&mut section, name.as_bytes(), value.as_bytes());
    }
    let mut frame = Vec::new();
    send::push_head(&mut frame, &section);
    frame
}

fn run(options: &Options) -> Result<Plan, String> {
    let text = |e: io::Error| e.to_string();
    let mut config = ClientConfig::new(Arc::new(trust::client()?));
    config.transport_config(Arc::new(transport(options)));
    let frame = request_frame(options);
    let mut groups = Vec::new();
    for n in 0..options.sockets {
        let share = (options.connections + options.sockets - 1 - n) / options.sockets;
        groups.push(Group::new(options, share).map_err(text)?);
    }
    let mut now = Instant::now();
    let mut plan = Plan::new(options, now);
    let (mut progress, mut known) = (now, 0);
    while !plan.is_done(now) {
        let mut next = plan.next_due();
        for group in &mut groups {
            group.connect(options, &config, now)?;
            group.receive(now).map_err(text)?;
            let due = group.handle_timeouts(now);
            next = [next, due].into_iter().flatten().min();
            let mut asking = Asking {
                plan: &mut plan,
                frame: &frame,
                streams: options.streams,
            };
            let all = options.rate.is_some();
            group.go_on(&mut asking, now, all).map_err(text)?;
        }
        wait(&groups, next).map_err(text)?;
        now = Instant::now();
        let answered = plan.succeeded + plan.failed + plan.connects + plan.bytes;
        if std::mem::replace(&mut known, answered) != answered {
            progress = now;
        }
        if now - progress > STALLED {
            return Err(format!(
                "no answer for {} s\n{}",
                STALLED.as_secs(),
                plan.text()
            ));
        }
    }
    Ok(plan)
}

/// Waits until a socket can be read, or the moment has come.
fn wait(groups: &[Group], until: Option<Instant>) -> io::Result<()> {
    let left = until.map_or(MAX_WAIT, |due| {
        due.saturating_duration_since(Instant::now()).min(MAX_WAIT)
    });
    let mut fds: Vec<libc::pollfd> = groups
        .iter()
        .map(|group| libc::pollfd {
            fd: group.raw(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = left.as_micros().div_ceil(1000) as i32;
    // SAFETY: the array lives through the call, with its true length.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    match n {
        -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => {
            Err(io::Error::last_os_error())
        }
        _ => Ok(()),
    }
}
