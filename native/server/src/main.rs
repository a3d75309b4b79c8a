//! The gallop binary.

fn main() -> std::process::ExitCode {
    gallop_server::main()
}
