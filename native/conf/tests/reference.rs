//! The written reference and the directive table say the same.

use gallop_conf::reference;
use std::path::Path;

#[test]
fn reference_matches_directive_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../DIRECTIVES.md");
    let wanted = reference::markdown();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &wanted).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == wanted,
        "native/DIRECTIVES.md is not up to date; run UPDATE_REFERENCE=1 cargo test -p gallop-conf --test reference"
    );
}

#[test]
fn every_note_has_a_directive_and_ineffective_directives_have_notes() {
    assert!(
        reference::stray_notes().is_empty(),
        "{:?}",
        reference::stray_notes()
    );
    assert!(
        reference::silent_rows().is_empty(),
        "{:?}",
        reference::silent_rows()
    );
}
