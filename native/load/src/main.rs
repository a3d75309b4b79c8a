//! gallop-load: a load generator for HTTP/1.1, HTTP/2 and HTTP/3 with h2load's options.

mod asked;
mod h1;
mod h2;
mod histogram;
mod options;
mod plan;
mod quic;
mod report;
mod tcp;
mod trust;
mod usage;
mod worker;

use options::Options;
use report::Report;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "-h" || arg == "--help") {
        print!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    let run = options::parse(std::env::args().skip(1)).and_then(|options| {
        let report = run(&options)?;
        let text = if options.json {
            report.json()
        } else {
            report.text()
        };
        print!("{text}");
        Ok(report.failed == 0 && report.succeeded > 0)
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

fn run(options: &Options) -> Result<Report, String> {
    let began = Instant::now();
    let all = thread::scope(|scope| {
        let start = |thread| scope.spawn(move || worker::work(options, thread, began));
        let threads: Vec<_> = (0..options.threads).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(panicked);
        threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(Report::new(options, began, &all))
}

fn panicked<T>(_: Box<dyn std::any::Any + Send>) -> Result<T, String> {
    Err("a thread of gallop-load itself failed; what it said stands above".into())
}
