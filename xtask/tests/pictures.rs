//! Checks that the pictures in `docs/` are up to date. `make pictures` redraws them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn pictures_in_docs_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let drawn = xtask::gallery::pictures().unwrap();
    for (name, svg) in &drawn {
        let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *svg, "docs/pictures/{name} is out of date: run `make pictures`");
    }
    let files: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name().display().to_string()).collect();
    let names: BTreeSet<String> = drawn.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, names, "docs/pictures has unexpected or missing files");
}
