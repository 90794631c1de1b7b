//! The top-level modules of every crate depend on each other in one direction.

use std::fs;
use std::path::{Path, PathBuf};

use xtask::modules::ModuleGraph;

#[test]
fn modules_have_no_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cycles = Vec::new();
    for folder in crates(&root) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let graph = ModuleGraph::read(&folder.join("src")).unwrap();
        cycles.extend(graph.cycles().iter().map(|cycle| format!("{name}: {cycle}\n")));
    }
    assert!(cycles.is_empty(), "cycles between modules:\n{}", cycles.concat());
}

/// All crates of the workspace that have sources.
fn crates(root: &Path) -> Vec<PathBuf> {
    let below = |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = below("crates").chain(below("examples")).collect();
    all.extend(["bench", "xtask"].map(|name| root.join(name)));
    all.retain(|folder| folder.join("Cargo.toml").is_file() && folder.join("src").is_dir());
    all.sort();
    assert!(all.len() > 20, "crates found: {all:?}");
    all
}

/// The cycles of a crate with these files.
fn cycles(test: &str, files: &[(&str, &str)]) -> Vec<String> {
    let src = std::env::temp_dir().join(format!("sluicegate-modules-{}-{test}", std::process::id()));
    for (file, text) in files {
        let path = src.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let graph = ModuleGraph::read(&src);
    fs::remove_dir_all(&src).unwrap();
    graph.unwrap().cycles().iter().map(ToString::to_string).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Thing;\n");

#[test]
fn every_way_to_name_a_module_is_found() {
    for (nth, reference) in [
        "use crate::a::X;",
        "use crate::{c::Y, a::{X, Z}};",
        "use super::super::a::X;",
        "fn f() { crate::a::g() }",
        "fn f() { println!(\"{}\", crate::a::g()) }",
        "mod inner { use super::super::super::a::X; }",
        "#[cfg(any(test, feature = \"x\"))] use crate::a::X;",
    ]
    .into_iter()
    .enumerate()
    {
        let files = [ROOT, ("a.rs", "use super::b::Y;"), ("b/mod.rs", "mod d;"), ("b/d.rs", reference), ("c.rs", "")];
        assert_eq!(cycles(&format!("named-{nth}"), &files), ["a -> (a.rs) b -> (b/d.rs) a"], "{reference}");
    }
}

#[test]
fn long_cycles_and_reexports_are_found() {
    let files = [ROOT, ("a.rs", "use crate::b::X;"), ("b.rs", "use crate::Thing;"), ("c.rs", "use crate::a::Y;")];
    assert_eq!(cycles("long", &files), ["a -> (a.rs) b -> (b.rs) c -> (c.rs) a"]);
}

#[test]
fn tests_and_one_direction_are_no_cycle() {
    let tests = "use super::c::Z;\n#[cfg(test)] mod tests { use crate::a::X; }\n#[cfg(test)] use crate::a::Y;\n\
                 #[cfg(test)] mod testing;\nstruct S;\nimpl S { #[cfg(test)] fn f() { crate::a::g() } }";
    let files =
        [ROOT, ("a.rs", "use crate::{b::X, c};\nmod own { use super::super::a; }"), ("b.rs", tests), ("c.rs", "")];
    assert_eq!(cycles("tests", &files), [""; 0]);
}
