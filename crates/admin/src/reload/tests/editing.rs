use super::super::{EditError, ReadOnlyReason};
use super::*;

#[tokio::test]
async fn an_edit_is_applied_and_written_to_the_file() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let applied = fixture.manager.put(edit(&total_rule("2/1h"), Some(1))).await.unwrap();
    assert_eq!(applied.version, 2);
    assert_eq!(read(&fixture.path()), total_rule("2/1h"));
    assert!(fixture.is_admitted() && fixture.is_admitted() && !fixture.is_admitted());
    let versions = fixture.manager.versions().await.unwrap();
    let listed: Vec<_> = versions.iter().map(|it| (it.number, it.author.as_str(), it.is_current)).collect();
    assert_eq!(listed, [(2, "alice", true), (1, "start", false)]);
    assert_eq!(fs::read_dir(&fixture.folder).unwrap().count(), 1, "nothing else is left behind");
}

#[tokio::test]
async fn an_invalid_edit_changes_neither_rules_nor_file() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let refused = fixture.manager.put(edit("rules: [{ name: total }]", Some(1))).await;
    assert!(matches!(refused, Err(EditError::Invalid(_))), "{refused:?}");
    assert_eq!((read(&fixture.path()), fixture.manager.status().version), (total_rule("1/1h"), 1));
}

/// Two concurrent edits: the second is rejected and overwrites nothing.
#[tokio::test]
async fn an_edit_of_a_stale_version_is_rejected() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fixture.manager.put(edit(&total_rule("2/1h"), Some(1))).await.unwrap();
    let refused = fixture.manager.put(edit(&total_rule("3/1h"), Some(1))).await;
    assert_eq!(refused, Err(EditError::StaleVersion { present: 2 }));
    assert_eq!(read(&fixture.path()), total_rule("2/1h"));
    fixture.manager.put(edit(&total_rule("3/1h"), None)).await.unwrap();
}

#[tokio::test]
async fn an_earlier_version_can_be_restored() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fixture.manager.put(edit(&total_rule("5/1h"), None)).await.unwrap();
    assert_eq!(fixture.manager.restore(1, "bob", "").await.unwrap().version, 3);
    assert_eq!(read(&fixture.path()), total_rule("1/1h"));
    let (version, text) = fixture.manager.version(3).await.unwrap().unwrap();
    assert_eq!((version.author.as_str(), version.comment.as_str()), ("bob", "restored version 1"));
    assert_eq!(text, total_rule("1/1h"));
    assert_eq!(fixture.manager.restore(9, "bob", "").await, Err(EditError::NoSuchVersion { number: 9 }));
}

/// A change that cannot be stored would be lost after a restart.
#[cfg(unix)]
#[tokio::test]
async fn an_edit_that_cannot_be_written_is_rolled_back() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    // The directory is gone, which also fails for root.
    let aside = fixture.folder.with_extension("aside");
    fs::rename(&fixture.folder, &aside).unwrap();
    let refused = fixture.manager.put(edit(&total_rule("9/1h"), None)).await;
    fs::rename(&aside, &fixture.folder).unwrap();
    assert!(matches!(&refused, Err(EditError::Unavailable(error)) if error.contains("cannot write")), "{refused:?}");
    assert!(fixture.is_admitted() && !fixture.is_admitted());
    assert_eq!(fixture.manager.source().text, total_rule("1/1h"));
    assert!(fixture.manager.status().last_error.is_some());
}

/// Mounted directories use symlinks: a symlink stays one.
#[cfg(unix)]
#[tokio::test]
async fn symlinks_are_preserved() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let real = fixture.folder.join("real.yaml");
    fs::rename(fixture.path(), &real).unwrap();
    std::os::unix::fs::symlink(&real, fixture.path()).unwrap();
    fixture.manager.put(edit(&total_rule("2/1h"), None)).await.unwrap();
    assert!(fs::symlink_metadata(fixture.path()).unwrap().is_symlink());
    assert_eq!(read(&real), total_rule("2/1h"));
}

#[cfg(unix)]
#[tokio::test]
async fn file_permissions_are_preserved() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o640)).unwrap();
    fixture.manager.put(edit(&total_rule("2/1h"), None)).await.unwrap();
    assert_eq!(fs::metadata(fixture.path()).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn built_in_rules_are_read_only() {
    let text = total_rule("1/1h");
    let settings = sluicegate_config::parse("test", &text).unwrap().settings;
    let sluice = Sluice::builder().rules(settings.rules.clone()).build().unwrap();
    let (origin, side_files) = (RulesOrigin::BuiltIn, Box::new(()));
    let manager = RuleManager::new(InitialRules { sluice, origin, text: text.clone(), settings, side_files });
    assert!(matches!(manager.put(edit(&text, None)).await, Err(EditError::ReadOnly(_))));
    assert!(matches!(manager.reload().await, Err(EditError::ReadOnly(_))));
    assert!(manager.source().read_only_reason == Some(ReadOnlyReason::BuiltIn));
}
