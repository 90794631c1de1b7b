//! The pictures in the manual are what is drawn. `make pictures` draws them anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn the_pictures_in_the_manual_are_what_is_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let drawn = sluicegate_manual::gallery::all().unwrap();
    for (name, svg) in &drawn {
        let kept = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(kept == *svg, "docs/pictures/{name} is not what is drawn: `make pictures` draws it anew");
    }
    let kept: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name().display().to_string()).collect();
    let names: BTreeSet<String> = drawn.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(kept, names, "files in docs/pictures that nothing draws, or the other way round");
}
