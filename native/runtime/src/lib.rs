//! A single-threaded executor over epoll: tasks, timers, and sockets. Each thread has one. Threads
//! share only the handles that wake a task from outside.

mod address;
mod datagram;
mod executor;
mod io;
mod shared;
mod socket;
mod sync;
mod sys;
mod timer;

pub use address::{raw_inet, raw_unix, write_inet};
pub use datagram::DatagramSock;
pub use executor::{spawn, yield_now, Handle, Runtime, TaskId};
pub use io::{read_behind, IoFd};
pub use shared::SharedCells;
pub use socket::{
    connect, start_connect, start_connect_unix, tcp_info, ConnectTo, Sock, Started, TcpInfo,
};
pub use sync::{race, Either, Notify, Watch};
pub use sys::{append_file, check, hang_up, send_file, set_option, Epoll, Listening};
pub use timer::{
    coarse_ms, coarse_us, deadline, now_ms, now_us, sleep, timeout, unix_time, Deadline, TimedOut,
};
