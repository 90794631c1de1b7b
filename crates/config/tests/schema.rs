//! Schema and parser accept the same files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sluicegate_config::{reference, schema};

/// `INSTA_UPDATE=always cargo test` regenerates the files, like the snapshots.
fn assert_current(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        fs::write(&path, generated).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), generated, "{} is out of date", path.display());
}

#[test]
fn the_committed_schema_is_current() {
    assert_current("schema/rules.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn the_committed_reference_is_current() {
    assert_current("schema/reference.md", &reference());
}

#[test]
fn good_files_match_the_schema() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for folder in ["good", "warned"] {
        for path in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)).unwrap() {
            let path = path.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let file = json(&fs::read_to_string(&path).unwrap());
            let errors: Vec<String> =
                validator.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path)).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
        }
    }
}

#[test]
fn the_schema_refuses_invalid_files() {
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

/// Converts a rule file to JSON through a reply's `json`, the one field that accepts any value.
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
