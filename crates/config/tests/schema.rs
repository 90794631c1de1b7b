//! The schema and the reader must agree on what a good file is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use sluicegate_config::{reference, schema};

/// `INSTA_UPDATE=always cargo test` writes them anew, as it does the snapshots.
fn in_step(path: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        fs::write(&path, made).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), made, "{} is out of step", path.display());
}

#[test]
fn the_committed_schema_is_in_step_with_the_tables() {
    in_step("schema/rules.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn the_committed_reference_is_in_step_with_the_tables() {
    in_step("schema/reference.md", &reference());
}

#[test]
fn good_files_are_valid_by_the_schema() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for folder in ["good", "warned"] {
        for path in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)).unwrap() {
            let path = path.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let file = json(&fs::read_to_string(&path).unwrap());
            let faults: Vec<String> =
                validator.iter_errors(&file).map(|fault| format!("{}: {fault}", fault.instance_path)).collect();
            assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
        }
    }
}

#[test]
fn what_the_schema_can_know_it_refuses() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for text in [
        "rulez: []",
        "rules: [{ limits: [10/s] }]",
        "rules: [{ name: a, limits: [ten] }]",
        "rules: [{ name: a, limits: [{ token_bucket: 10/s, queue: 5 }] }]",
        "rules: [{ name: a, limits: [10/s], mode: shadw }]",
        "rules: [{ name: a, limits: [10/s], on_limit: { status: 200 } }]",
        "memory: lots",
        "headers: letf",
        "gateway: { listen: here }",
    ] {
        assert!(!validator.is_valid(&json(text)), "{text}");
    }
}

/// A rule file as JSON, by way of a reply's `json`: the one place where the reader takes anything over.
fn json(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}').replace('\r', "");
    let indented: String = text.lines().map(|line| format!("          {line}\n")).collect();
    let wrapped =
        format!("rules:\n  - name: x\n    limits: [1/s]\n    on_limit:\n      json:\n        file:\n{indented}");
    let loaded = sluicegate_config::parse("wrapped", &wrapped).unwrap_or_else(|report| panic!("{text}{report}"));
    let reply = loaded.settings.rules[0].on_limit.reply.clone();
    let Some(sluicegate_engine::rule::Reply::Refuse { body: Some(body), .. }) = reply else { panic!() };
    let sluicegate_engine::rule::ReplyBody::Json(body) = body else { panic!() };
    serde_json::from_str::<Value>(&body).unwrap()["file"].clone()
}
