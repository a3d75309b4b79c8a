//! Tests of datagrams over sockets of this machine.

use super::*;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    prepare(socket.as_raw_fd(), socket.local_addr().unwrap().ip()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    socket
}

/// Receive the expected number of datagrams: local address, length, and first byte of each.
fn take(
    receiver: &mut Receiver,
    ours: &UdpSocket,
    from: SocketAddr,
    count: usize,
) -> Vec<(Option<IpAddr>, usize, u8)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let result = receiver.receive(ours.as_raw_fd(), |datagram| {
            assert_eq!(datagram.remote, from);
            seen.push((datagram.local, datagram.data.len(), datagram.data[0]));
        });
        assert!(result.unwrap() <= BATCH);
    }
    let nothing = receiver.receive(ours.as_raw_fd(), |_| {});
    assert_eq!(nothing.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    seen
}

#[test]
fn datagrams_come_with_their_addresses() {
    for (bound, ip, told) in [
        ("127.0.0.1:0", "127.0.0.1", false),
        ("0.0.0.0:0", "127.0.0.1", true),
        ("[::1]:0", "::1", false),
        ("[::]:0", "::1", true),
    ] {
        let ip: IpAddr = ip.parse().unwrap();
        let (ours, theirs) = (socket(bound), UdpSocket::bind((ip, 0)).unwrap());
        let to = (ip, ours.local_addr().unwrap().port());
        for n in 0..100u8 {
            theirs.send_to(&[n; 1200], to).unwrap();
        }
        let from = theirs.local_addr().unwrap();
        let seen = take(&mut Receiver::default(), &ours, from, 100);
        let want: Vec<_> = (0..100).map(|n| (told.then_some(ip), 1200, n)).collect();
        assert_eq!(seen, want);
    }
}

#[test]
fn long_datagrams_are_taken_whole_unless_there_were_none_for_long() {
    let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let from = theirs.local_addr().unwrap();
    let send = |len, byte| {
        theirs
            .send_to(&vec![byte; len], ours.local_addr().unwrap())
            .unwrap()
    };
    let mut receiver = Receiver::default();
    send(60_000, 1);
    assert_eq!(take(&mut receiver, &ours, from, 1), [(None, 60_000, 1)]);
    for _ in 0..SHORT_RUN {
        send(100, 2);
        take(&mut receiver, &ours, from, 1);
    }
    send(60_000, 3);
    let cut = receiver.receive(ours.as_raw_fd(), |_| panic!("it was cut"));
    assert_eq!(cut.unwrap(), 1);
    send(60_000, 4);
    send(2048, 5);
    assert_eq!(
        take(&mut receiver, &ours, from, 2),
        [(None, 60_000, 4), (None, 2048, 5)]
    );
}

#[test]
fn one_call_sends_many_datagrams_in_segments() {
    let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let mut sender = Sender::default();
    for n in 0..10u8 {
        sender.buffer().resize(2500, n);
        let local = Some(ours.local_addr().unwrap().ip());
        let remote = theirs.local_addr().unwrap();
        sender.push(Transmit {
            segment: Some(1000),
            ..Transmit::unmarked(remote, local)
        });
    }
    sender.flush(ours.as_raw_fd()).unwrap();
    assert!(sender.is_empty());
    let mut buffer = [0; 4000];
    for n in 0..10u8 {
        for want in [1000, 1000, 500] {
            let len = theirs.recv(&mut buffer).unwrap();
            assert_eq!((len, buffer[0]), (want, n));
        }
    }
}

/// Queue a datagram of this many bytes, each of them `byte`.
fn queue(sender: &mut Sender, remote: SocketAddr, len: usize, byte: u8) {
    sender.buffer().resize(len, byte);
    sender.push(Transmit::unmarked(remote, None));
}

#[test]
fn datagrams_for_one_address_go_out_together_and_come_apart() {
    let ours = socket("127.0.0.1:0");
    let theirs = [socket("127.0.0.1:0"), socket("127.0.0.1:0")];
    let remotes = theirs.each_ref().map(|s| s.local_addr().unwrap());
    let mut sender = Sender::default().joining(true);
    // Rows of (receiver, length). The last datagram of a message is shorter or the last for its
    // address.
    let rows: &[&[(usize, usize)]] = &[
        &[(0, 300), (0, 300), (0, 299)],
        &[(0, 300)],
        &[(1, 300), (1, 300)],
        &[(0, 301)],
        &[(0, 1300)],
        &[(0, 1300)],
    ];
    let all: Vec<_> = rows.concat();
    for (n, &(to, len)) in all.iter().enumerate() {
        queue(&mut sender, remotes[to], len, n as u8);
    }
    let (mut at, mut runs) = (0, Vec::new());
    while at < all.len() {
        runs.push(sender.run(at));
        at += runs[runs.len() - 1];
    }
    let wanted: Vec<_> = rows.iter().map(|row| row.len()).collect();
    assert_eq!(runs, wanted);
    sender.flush(ours.as_raw_fd()).unwrap();
    assert!(sender.is_empty());
    let mut buffer = [0; 2000];
    for (n, &(to, len)) in all.iter().enumerate() {
        let got = theirs[to].recv(&mut buffer).unwrap();
        assert_eq!((got, buffer[0]), (len, n as u8));
    }
}

#[test]
fn what_the_kernel_takes_no_segments_of_goes_out_one_by_one() {
    let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    // Without checksums, the kernel refuses segmentation, as for devices that compute none.
    set(ours.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let remote = theirs.local_addr().unwrap();
    let mut sender = Sender::default().joining(true);
    (0..3).for_each(|n| queue(&mut sender, remote, 300, n));
    sender.buffer().resize(2500, 3);
    sender.push(Transmit {
        segment: Some(1000),
        ..Transmit::unmarked(remote, None)
    });
    sender.flush(ours.as_raw_fd()).unwrap();
    assert!(sender.is_empty() && !sender.joins);
    let mut buffer = [0; 4000];
    for (len, byte) in [(300, 0), (300, 1), (300, 2), (1000, 3), (1000, 3), (500, 3)] {
        let got = theirs.recv(&mut buffer).unwrap();
        assert_eq!((got, buffer[0]), (len, byte));
    }
}

#[test]
fn datagrams_are_marked_unless_they_shall_not_be() {
    for (bound, ip) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("[::]:0", "::1"),
        ("[::]:0", "::ffff:127.0.0.1"),
    ] {
        let ours = socket(bound);
        let ip: IpAddr = ip.parse().unwrap();
        let theirs = socket(&SocketAddr::new(ip.to_canonical(), 0).to_string());
        let mut sender = Sender::marking(true);
        let remote = (ip, theirs.local_addr().unwrap().port()).into();
        for ecn in [true, false, true] {
            sender.buffer().push(u8::from(ecn));
            let transmit = Transmit::unmarked(remote, Some(ip));
            sender.push(Transmit { ecn, ..transmit });
        }
        sender.buffer().resize(2500, 0);
        sender.push(Transmit {
            segment: Some(1000),
            ..Transmit::unmarked(remote, Some(ip))
        });
        sender.flush(ours.as_raw_fd()).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 6 {
            let taken = Receiver::default().receive(theirs.as_raw_fd(), |datagram| {
                seen.push((datagram.data.len(), datagram.ecn));
            });
            taken.unwrap();
        }
        let (marked, unmarked) = ((1, Ecn::Ect0), |len| (len, Ecn::None));
        let cut = [unmarked(1000), unmarked(1000), unmarked(500)];
        let wanted = [[marked, unmarked(1), marked], cut].concat();
        assert_eq!(seen, wanted, "{bound} to {ip}");
    }
}

#[test]
fn an_unreachable_destination_does_not_hold_up_the_others() {
    let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let mut sender = Sender::default().joining(true);
    let bad: SocketAddr = "255.255.255.255:9".parse().unwrap();
    for remote in [bad, bad, theirs.local_addr().unwrap()] {
        queue(&mut sender, remote, 5, 0);
    }
    sender.flush(ours.as_raw_fd()).unwrap();
    assert!(sender.is_empty() && sender.joins);
    let mut buffer = [0; 100];
    assert_eq!(theirs.recv(&mut buffer).unwrap(), 5);
}
