use super::super::Refusal;
use super::*;

#[tokio::test]
async fn an_edit_takes_effect_and_stands_in_the_file() {
    let kept = Kept::new(&total("1/1h"));
    let applied = kept.keeper.put(edit(&total("2/1h"), Some(1))).await.unwrap();
    assert_eq!(applied.version, 2);
    assert_eq!(read(&kept.path()), total("2/1h"));
    assert!(kept.passes() && kept.passes() && !kept.passes());
    let versions = kept.keeper.versions().await.unwrap();
    let told: Vec<_> = versions.iter().map(|it| (it.number, it.author.as_str(), it.is_current)).collect();
    assert_eq!(told, [(2, "alice", true), (1, "start", false)]);
    assert_eq!(fs::read_dir(&kept.folder).unwrap().count(), 1, "nothing else is left behind");
}

#[tokio::test]
async fn a_bad_edit_touches_neither_rules_nor_file() {
    let kept = Kept::new(&total("1/1h"));
    let refused = kept.keeper.put(edit("rules: [{ name: total }]", Some(1))).await;
    assert!(matches!(refused, Err(Refusal::Faulty(_))), "{refused:?}");
    assert_eq!((read(&kept.path()), kept.keeper.status().version), (total("1/1h"), 1));
}

/// Two people who edit at once: the second is told, and overwrites nothing.
#[tokio::test]
async fn an_edit_of_an_older_version_is_refused() {
    let kept = Kept::new(&total("1/1h"));
    kept.keeper.put(edit(&total("2/1h"), Some(1))).await.unwrap();
    let refused = kept.keeper.put(edit(&total("3/1h"), Some(1))).await;
    assert_eq!(refused, Err(Refusal::Overtaken { present: 2 }));
    assert_eq!(read(&kept.path()), total("2/1h"));
    kept.keeper.put(edit(&total("3/1h"), None)).await.unwrap();
}

#[tokio::test]
async fn an_earlier_version_can_be_restored() {
    let kept = Kept::new(&total("1/1h"));
    kept.keeper.put(edit(&total("5/1h"), None)).await.unwrap();
    assert_eq!(kept.keeper.restore(1, "bob", "").await.unwrap().version, 3);
    assert_eq!(read(&kept.path()), total("1/1h"));
    let (version, text) = kept.keeper.version(3).await.unwrap().unwrap();
    assert_eq!((version.author.as_str(), version.comment.as_str()), ("bob", "back to version 1"));
    assert_eq!(text, total("1/1h"));
    assert_eq!(kept.keeper.restore(9, "bob", "").await, Err(Refusal::NoSuchVersion { number: 9 }));
}

/// What cannot be kept would be gone after a restart, to everybody's surprise.
#[cfg(unix)]
#[tokio::test]
async fn an_edit_that_cannot_be_written_is_taken_back() {
    let kept = Kept::new(&total("1/1h"));
    // The folder is gone: also for a user who may write everywhere.
    let aside = kept.folder.with_extension("aside");
    fs::rename(&kept.folder, &aside).unwrap();
    let refused = kept.keeper.put(edit(&total("9/1h"), None)).await;
    fs::rename(&aside, &kept.folder).unwrap();
    assert!(matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("cannot be written")), "{refused:?}");
    assert!(kept.passes() && !kept.passes());
    assert_eq!(kept.keeper.source().text, total("1/1h"));
    assert!(kept.keeper.status().trouble.is_some());
}

/// Mounted folders lead to their files by links: a link stays one.
#[cfg(unix)]
#[tokio::test]
async fn a_link_goes_on_leading_where_it_leads() {
    let kept = Kept::new(&total("1/1h"));
    let real = kept.folder.join("real.yaml");
    fs::rename(kept.path(), &real).unwrap();
    std::os::unix::fs::symlink(&real, kept.path()).unwrap();
    kept.keeper.put(edit(&total("2/1h"), None)).await.unwrap();
    assert!(fs::symlink_metadata(kept.path()).unwrap().is_symlink());
    assert_eq!(read(&real), total("2/1h"));
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_rights_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt;
    let kept = Kept::new(&total("1/1h"));
    fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o640)).unwrap();
    kept.keeper.put(edit(&total("2/1h"), None)).await.unwrap();
    assert_eq!(fs::metadata(kept.path()).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn the_programs_own_rules_cannot_be_changed() {
    let text = total("1/1h");
    let settings = sluicegate_config::parse("test", &text).unwrap().settings;
    let sluice = Sluice::builder().rules(settings.rules.clone()).build().unwrap();
    let (origin, beside) = (Origin::BuiltIn, Box::new(()));
    let keeper = Keeper::new(Start { sluice, origin, text: text.clone(), settings, beside });
    assert!(matches!(keeper.put(edit(&text, None)).await, Err(Refusal::NotEditable(_))));
    assert!(matches!(keeper.reload().await, Err(Refusal::NotEditable(_))));
    assert!(keeper.source().why_not.unwrap().contains("sluicegate run FILE"));
}
