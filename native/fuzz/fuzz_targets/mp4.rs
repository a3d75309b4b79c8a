#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gallop_fuzz_entries::mp4(bytes));
