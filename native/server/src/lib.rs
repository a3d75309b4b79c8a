//! gallop: command line, master and worker process.

mod cli;
mod crew;
mod datagram;
mod h1;
mod h2;
mod handover;
mod idle;
mod listen;
mod master;
mod mux;
mod passing;
mod preparing;
mod process;
pub mod quic;
mod reuse;
mod session;
mod statistics;
mod steering;
mod stream;
mod tls;
mod transport;
mod version;
mod worker;

use std::process::ExitCode;

/// Run the binary, from the command line to the exit code.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match cli::parse(&args) {
        Ok(options) => master::run(options),
        Err(message) => {
            eprintln!("gallop: {message}");
            ExitCode::FAILURE
        }
    }
}
