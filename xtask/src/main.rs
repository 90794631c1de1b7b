//! Writes the pictures of the manual: `make pictures`.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    fs::create_dir_all(&folder)?;
    for (name, svg) in xtask::gallery::pictures()? {
        fs::write(folder.join(name), svg)?;
        println!("docs/pictures/{name}");
    }
    Ok(())
}
