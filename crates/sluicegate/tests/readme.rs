//! The Rust program of the README builds in a project of its own, with exactly the dependencies shown there. The
//! README's doctest cannot show a missing feature, because it is built with the features of this workspace.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Path of the library in the README's dependencies, as seen from a project next to the checkout.
const SHOWN_PATH: &str = "../sluicegate/crates/sluicegate";

/// The first block of this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    page.split(&format!("\n```{language}\n")).nth(1).and_then(|rest| rest.split("\n```\n").next()).unwrap()
}

#[test]
fn the_readme_program_builds_with_the_dependencies_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = fs::read_to_string(root.join("README.md")).unwrap();
    let dependencies = block(&page, "toml");
    assert!(dependencies.contains(SHOWN_PATH), "{dependencies}");

    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    fs::create_dir_all(project.join("src")).unwrap();
    let dependencies = dependencies.replace(SHOWN_PATH, env!("CARGO_MANIFEST_DIR"));
    let package = "[package]\nname = \"readme\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n";
    fs::write(project.join("Cargo.toml"), format!("{package}{dependencies}\n")).unwrap();
    fs::write(project.join("src/main.rs"), block(&page, "rust,no_run")).unwrap();
    // The versions of this workspace, as far as they apply.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let mut cargo = Command::new(env!("CARGO"));
    let output =
        cargo.args(["check", "--quiet"]).current_dir(&project).env_remove("CARGO_TARGET_DIR").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
