use super::super::{EditError, RuleDiagnostic};
use super::*;

#[tokio::test]
async fn a_reload_keeps_counter_state() {
    let fixture = ManagerFixture::new(&total_rule("2/1h"));
    assert!(fixture.is_admitted() && fixture.is_admitted() && !fixture.is_admitted());
    fixture.write(&total_rule("3/1h"));
    let applied = fixture.manager.reload().await.unwrap();
    assert_eq!((applied.version, applied.warnings, applied.pending_restart), (2, vec![], vec![]));
    assert!(fixture.is_admitted(), "one more than before");
    assert!(!fixture.is_admitted(), "and no free burst");
    let status = fixture.manager.status();
    assert_eq!((status.version, status.reloads, status.failed_reloads, status.last_error), (2, 1, 0, None));
    assert_eq!(fixture.manager.source().text, total_rule("3/1h"));
}

/// The last valid rules stay in force; the error is fixture until a valid text arrives.
#[tokio::test]
async fn invalid_rules_change_nothing_and_the_error_is_recorded() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    assert!(fixture.is_admitted() && !fixture.is_admitted());
    fixture.write("rules: [{ name: total, limit: [9/1h] }]\n");
    let Err(EditError::Invalid(errors)) = fixture.manager.reload().await else { panic!("applied") };
    let [RuleDiagnostic { line: 1, column: 24, help: Some(help), .. }, ..] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(help, "did you mean `limits`?");
    assert!(!fixture.is_admitted());
    let status = fixture.manager.status();
    assert_eq!((status.version, status.failed_reloads), (1, 1));
    assert!(status.last_error.unwrap().message.contains("line 1, column 24"));
    fixture.write(&total_rule("2/1h"));
    fixture.manager.reload().await.unwrap();
    assert!(fixture.is_admitted());
    assert_eq!(fixture.manager.status().last_error, None);
}

#[tokio::test]
async fn a_missing_or_partial_file_changes_nothing() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fs::remove_file(fixture.path()).unwrap();
    assert!(fixture.manager.reload().await.is_err());
    fixture.write("rules: [{ name: to");
    assert!(fixture.manager.reload().await.is_err());
    fixture.write("");
    assert!(fixture.manager.reload().await.is_err());
    fs::remove_file(fixture.path()).unwrap();
    fs::create_dir(fixture.path()).unwrap();
    assert!(fixture.manager.reload().await.is_err());
    assert_eq!(fixture.rules(), ["total"]);
    assert_eq!(fixture.manager.status().failed_reloads, 4);
}

#[tokio::test]
async fn pending_restart_lists_changed_sections() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fixture.write(&format!("{}memory: 1MiB\nadmin: {{ listen: 127.0.0.1:9999 }}\n", total_rule("2/1h")));
    let applied = fixture.manager.reload().await.unwrap();
    assert_eq!(applied.pending_restart, ["memory", "admin"]);
    assert!(fixture.is_admitted() && fixture.is_admitted(), "the rules are in force all the same");
    fixture.write(&total_rule("2/1h"));
    assert_eq!(fixture.manager.reload().await.unwrap().pending_restart, Vec::<String>::new());
}

#[tokio::test]
async fn warnings_are_returned() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fixture.write("rules:\n  - { name: a, limits: [10/s, 1000/s] }\n");
    let applied = fixture.manager.reload().await.unwrap();
    assert_eq!(applied.warnings.len(), 1, "{:?}", applied.warnings);
    assert_eq!(applied.warnings, fixture.manager.check(read(&fixture.path())).await.warnings);
}

/// Under load, reloads never admit requests beyond the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_never_exceed_the_limit() {
    let fixture = ManagerFixture::new(&total_rule("500/1h"));
    let (sluice, manager) = (fixture.sluice.clone(), fixture.manager.clone());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let requester = std::thread::spawn(move || {
        let mut admitted = 0;
        while !stopped.load(Ordering::Relaxed) {
            admitted += u32::from(sluice.decide(&Request::new("GET", "/")).is_admitted());
        }
        admitted
    });
    for index in 0..1_000 {
        let more = if index % 2 == 0 { "" } else { "  - { name: other, match: GET /other, limits: [5/s] }\n" };
        fixture.write(&format!("rules:\n  - {{ name: total, limits: [500/1h] }}\n{more}"));
        manager.reload().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(requester.join().unwrap(), 500);
    assert_eq!(fixture.manager.status().reloads, 1_000);
    assert!(fixture.manager.versions().await.unwrap().len() <= 50, "versions are bounded");
}
