//! Changed settings that need a restart.

use sluicegate_config::Settings;

/// Sections in which the file differs from the running settings, except rules and lists, which change at
/// once.
pub(super) fn sections(running: &Settings, file: &Settings) -> Vec<String> {
    let Settings { rules: _, lists: _, store, headers, memory, gateway, server, admin, rules_from, watch, log } =
        running;
    let changed = [
        ("store", *store != file.store),
        ("headers", *headers != file.headers),
        ("memory", *memory != file.memory),
        ("gateway", *gateway != file.gateway),
        ("server", *server != file.server),
        ("admin", *admin != file.admin),
        ("rules_from", *rules_from != file.rules_from),
        ("watch", *watch != file.watch),
        ("log", *log != file.log),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name.to_owned()).collect()
}
