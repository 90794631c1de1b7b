//! systemd units match the program and the full example file.

use super::page::blocks;
use super::{read, stdout_of};

/// Values of a setting, in order.
fn values<'u>(unit: &'u str, name: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

#[test]
fn service_unit_runs_an_existing_command() {
    let unit = read("packaging/systemd/sluicegate.service");
    let [start] = values(&unit, "ExecStart")[..] else { panic!("one ExecStart") };
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words, ["/usr/local/bin/sluicegate", "run", "/etc/sluicegate/rules.yaml"]);
    assert!(stdout_of(&["run", "--help"]).contains("[FILE]"));
    assert_eq!(values(&unit, "Type"), ["notify"]);
}

/// The gateway page shows a minimal unit, a subset of the packaged one, which the installation test verifies.
#[test]
fn documented_unit_is_a_subset_of_the_packaged_unit() {
    let unit = read("packaging/systemd/sluicegate.service");
    let shown = blocks(&read("docs/gateway.md")).into_iter().find(|block| block.kind == "ini").unwrap().text;
    let settings: Vec<&str> = shown.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(settings.len() > 4, "{shown}");
    for setting in settings {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
}

/// Sockets are matched by address: one that the file does not name would be closed.
#[test]
fn socket_unit_matches_the_full_example() {
    let unit = read("packaging/systemd/sluicegate.socket");
    let loaded = sluicegate_config::parse("full.yaml", &read("examples/rules/full.yaml")).unwrap();
    let listeners = loaded.settings.gateway.unwrap().listen;
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(values(&unit, "ListenStream"), addresses);
}

#[test]
fn service_user_is_created() {
    let unit = read("packaging/systemd/sluicegate.service");
    let [user] = values(&unit, "User")[..] else { panic!("one User") };
    assert!(read("packaging/systemd/sluicegate.conf").lines().any(|line| line.starts_with(&format!("u {user} "))));
}

#[test]
fn image_rule_file_has_no_warnings() {
    let loaded = sluicegate_config::parse("rules.yaml", &read("packaging/container/rules.yaml"));
    let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}
