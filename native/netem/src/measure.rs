//! Measures the properties of a link with UDP: round-trip time, rate in both directions, and
//! whether a burst of the queue's size passes completely.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::pipe::Shape;
use crate::tun::{check, Place};

const PINGS: usize = 40;
const PING_EVERY: Duration = Duration::from_millis(5);
/// With IP and UDP headers 1500 bytes, like full TCP segments.
const PAYLOAD: usize = 1472;
const PACKET_BITS: u64 = 1500 * 8;
const BLAST: Duration = Duration::from_millis(250);
const MAX_BURST: usize = 400;

pub struct Found {
    pub rtt_us: Vec<u64>,
    pub rates_bps: [f64; 2],
    pub burst: (usize, usize),
}

impl Found {
    pub fn to_json(&self) -> String {
        let at =
            |share: f64| self.rtt_us[((self.rtt_us.len() - 1) as f64 * share).round() as usize];
        let kbit = |rate: f64| rate / 1000.0;
        format!(
            "{{\"rtt_us\": {{\"min\": {}, \"p50\": {}, \"p99\": {}}}, \"pings\": [{}, {}], \
             \"rate_kbit\": {{\"forward\": {:.1}, \"backward\": {:.1}}}, \"burst\": [{}, {}]}}",
            at(0.0),
            at(0.5),
            at(0.99),
            PINGS,
            self.rtt_us.len(),
            kbit(self.rates_bps[0]),
            kbit(self.rates_bps[1]),
            self.burst.0,
            self.burst.1
        )
    }
}

/// Measure from two threads, one in each namespace.
pub fn measure(near: &Place, far: &Place, shape: &Shape) -> Result<Found, String> {
    let rtt = Duration::from_nanos(2 * (shape.delay_ns + shape.jitter_ns));
    let silence = rtt + Duration::from_millis(150);
    let rtt_us = pings(near, far, silence)?;
    if rtt_us.is_empty() {
        return Err("no ping came back".to_owned());
    }
    let mut rates_bps = [0.0; 2];
    if shape.rate_bps > 0 {
        for (number, (from, to)) in [(near, far), (far, near)].into_iter().enumerate() {
            rates_bps[number] = blast(from, to, shape, silence)?;
        }
    }
    // One packet is being transmitted while the others wait.
    let burst = if shape.rate_bps > 0 {
        (shape.queue_packets + 1).min(MAX_BURST)
    } else {
        MAX_BURST
    };
    let came = arrivals(near, far, silence, move |socket, to| {
        (0..burst).try_for_each(|_| send(socket, to))
    })?;
    Ok(Found {
        rtt_us,
        rates_bps,
        burst: (burst, came.len()),
    })
}

fn words(error: io::Error) -> String {
    error.to_string()
}

fn socket(place: &Place) -> io::Result<UdpSocket> {
    place.enter()?;
    let socket = UdpSocket::bind(SocketAddr::from((place.address, 0)))?;
    buffer(&socket, libc::SO_RCVBUFFORCE)?;
    buffer(&socket, libc::SO_SNDBUFFORCE)?;
    Ok(socket)
}

fn buffer(socket: &UdpSocket, option: libc::c_int) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let size: libc::c_int = 32 << 20;
    // SAFETY: the option takes an int, whose address and size are given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(&size).cast(),
            std::mem::size_of_val(&size) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Round-trip times in microseconds, sorted.
fn pings(near: &Place, far: &Place, silence: Duration) -> Result<Vec<u64>, String> {
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let echo = scope.spawn(move || -> io::Result<()> {
            let socket = socket(far)?;
            socket.set_read_timeout(Some(silence + PING_EVERY * PINGS as u32))?;
            tell.send(socket.local_addr()?).ok();
            let mut word = [0u8; 64];
            for _ in 0..PINGS {
                match socket.recv_from(&mut word) {
                    Ok((length, from)) => socket.send_to(&word[..length], from)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
            }
            Ok(())
        });
        let asking = scope.spawn(move || -> io::Result<Vec<u64>> {
            let socket = socket(near)?;
            let Ok(to) = told.recv() else {
                return Ok(Vec::new());
            };
            let (reader, began) = (socket.try_clone()?, Instant::now());
            reader.set_read_timeout(Some(silence))?;
            let answers = thread::spawn(move || {
                let (mut word, mut found) = ([0u8; 8], Vec::new());
                while found.len() < PINGS && reader.recv(&mut word).is_ok() {
                    let sent = u64::from_le_bytes(word);
                    found.push((began.elapsed().as_nanos() as u64).saturating_sub(sent) / 1000);
                }
                found
            });
            for _ in 0..PINGS {
                socket.send_to(&(began.elapsed().as_nanos() as u64).to_le_bytes(), to)?;
                thread::sleep(PING_EVERY);
            }
            Ok(answers.join().unwrap_or_default())
        });
        let mut found = asking
            .join()
            .map_err(|_| "pinging failed".to_owned())?
            .map_err(words)?;
        echo.join()
            .map_err(|_| "echoing failed".to_owned())?
            .map_err(words)?;
        found.sort_unstable();
        Ok(found)
    })
}

/// Bits of IP packets per second, while more is sent than can pass.
fn blast(from: &Place, to: &Place, shape: &Shape, silence: Duration) -> Result<f64, String> {
    let rate_bps = shape.rate_bps;
    // The initial backlog keeps the bottleneck busy when the sender is delayed.
    let ahead = (shape.queue_packets as u64 / 2).clamp(8, 500);
    let enough = Duration::from_nanos(60 * PACKET_BITS * 1_000_000_000 / rate_bps);
    let length = BLAST.max(enough);
    let times = arrivals(from, to, silence, move |socket, to| {
        let began = Instant::now();
        let mut sent = 0u64;
        while began.elapsed() < length {
            // Ten percent more than the link carries.
            let wanted = ahead
                + (began.elapsed().as_nanos() as u64 / 1000 * (rate_bps / 1000)) * 11
                    / 10_000
                    / PACKET_BITS;
            while sent < wanted {
                send(socket, to)?;
                sent += 1;
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    })?;
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Err("nothing passed".to_owned());
    };
    let seconds = (*last - *first).as_secs_f64();
    Ok(if seconds > 0.0 {
        (times.len() - 1) as f64 * PACKET_BITS as f64 / seconds
    } else {
        0.0
    })
}

fn send(socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
    match socket.send_to(&[0u8; PAYLOAD], to) {
        Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => Err(error),
        _ => Ok(()),
    }
}

/// The arrival times of what `sending` sends, until nothing arrived for `silence`.
fn arrivals(
    from: &Place,
    to: &Place,
    silence: Duration,
    sending: impl Fn(&UdpSocket, SocketAddr) -> io::Result<()> + Send,
) -> Result<Vec<Instant>, String> {
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let reading = scope.spawn(move || -> io::Result<Vec<Instant>> {
            let socket = socket(to)?;
            socket.set_read_timeout(Some(silence + BLAST))?;
            tell.send(socket.local_addr()?).ok();
            let (mut word, mut times) = ([0u8; 2048], Vec::new());
            while socket.recv(&mut word).is_ok() {
                times.push(Instant::now());
                if times.len() == 1 {
                    socket.set_read_timeout(Some(silence))?;
                }
            }
            Ok(times)
        });
        let writing = scope.spawn(move || -> io::Result<()> {
            let socket = socket(from)?;
            match told.recv() {
                Ok(to) => sending(&socket, to),
                Err(_) => Ok(()),
            }
        });
        writing
            .join()
            .map_err(|_| "sending failed".to_owned())?
            .map_err(words)?;
        reading
            .join()
            .map_err(|_| "receiving failed".to_owned())?
            .map_err(words)
    })
}
