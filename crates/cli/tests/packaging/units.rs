//! The units, held to what the program and the rule file with every setting say.

use crate::page::blocks;
use crate::{read, said};

/// The values of a setting, in order.
fn values<'u>(unit: &'u str, name: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

#[test]
fn the_service_runs_a_command_that_exists() {
    let unit = read("packaging/systemd/sluicegate.service");
    let [start] = values(&unit, "ExecStart")[..] else { panic!("one ExecStart") };
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words, ["/usr/local/bin/sluicegate", "run", "/etc/sluicegate/rules.yaml"]);
    assert!(said(&["run", "--help"]).contains("[FILE]"));
    assert_eq!(values(&unit, "Type"), ["notify"]);
}

/// The gateway's page shows the least that a unit needs, which is a part of ours; that one is verified where it is installed.
#[test]
fn the_unit_that_the_page_shows_is_a_part_of_ours() {
    let unit = read("packaging/systemd/sluicegate.service");
    let shown = blocks(&read("docs/gateway.md")).into_iter().find(|block| block.kind == "ini").unwrap().text;
    let settings: Vec<&str> = shown.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(settings.len() > 4, "{shown}");
    for setting in settings {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
}

/// Sockets are taken by their addresses: one that the file does not name would be closed.
#[test]
fn the_socket_unit_opens_what_the_full_example_listens_at() {
    let unit = read("packaging/systemd/sluicegate.socket");
    let loaded = sluicegate_config::parse("full.yaml", &read("examples/rules/full.yaml")).unwrap();
    let listeners = loaded.settings.gateway.unwrap().listen;
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(values(&unit, "ListenStream"), addresses);
}

#[test]
fn the_user_of_the_service_is_made() {
    let unit = read("packaging/systemd/sluicegate.service");
    let [user] = values(&unit, "User")[..] else { panic!("one User") };
    assert!(read("packaging/systemd/sluicegate.conf").lines().any(|line| line.starts_with(&format!("u {user} "))));
}

#[test]
fn the_file_of_the_image_can_be_used_without_a_warning() {
    let loaded = sluicegate_config::parse("rules.yaml", &read("packaging/container/rules.yaml"));
    let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}
