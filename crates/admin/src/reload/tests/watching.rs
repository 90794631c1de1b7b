use std::time::Duration;

use super::*;

/// Lets the watcher poll the file this number of times.
async fn poll_times(fixture: &ManagerFixture, times: usize) {
    for _ in 0..times {
        while fixture.clock.pending_timers() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fixture.clock.advance(Duration::from_millis(500));
    }
    while fixture.clock.pending_timers() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_changed_file_is_reloaded_once_it_is_stable() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let following = tokio::spawn(fixture.manager.clone().watch());
    poll_times(&fixture, 2).await;
    assert_eq!(fixture.manager.status().reloads, 0);
    fixture.write(&total_rule("22/1h"));
    poll_times(&fixture, 1).await;
    assert_eq!(fixture.manager.status().reloads, 0, "somebody may still be writing");
    poll_times(&fixture, 1).await;
    assert_eq!((fixture.manager.status().reloads, fixture.manager.status().version), (1, 2));
    poll_times(&fixture, 3).await;
    assert_eq!(fixture.manager.status().reloads, 1);
    following.abort();
}

/// Replacement by rename, as editors and mounted directories do.
#[tokio::test]
async fn a_replaced_file_is_reloaded_and_an_invalid_one_tried_once() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let following = tokio::spawn(fixture.manager.clone().watch());
    poll_times(&fixture, 1).await;
    let exchange = |text: &str| {
        fs::write(fixture.folder.join("new"), text).unwrap();
        fs::rename(fixture.folder.join("new"), fixture.path()).unwrap();
    };
    exchange("rules: [oh]");
    poll_times(&fixture, 4).await;
    assert_eq!((fixture.manager.status().reloads, fixture.manager.status().failed_reloads), (0, 1));
    exchange(&total_rule("2/1h"));
    poll_times(&fixture, 2).await;
    assert_eq!((fixture.manager.status().reloads, fixture.manager.status().last_error), (1, None));
    following.abort();
}

#[tokio::test]
async fn own_edits_are_not_reloaded() {
    let fixture = ManagerFixture::new(&total_rule("1/1h"));
    let following = tokio::spawn(fixture.manager.clone().watch());
    poll_times(&fixture, 1).await;
    fixture.manager.put(edit(&total_rule("2/1h"), None)).await.unwrap();
    poll_times(&fixture, 3).await;
    assert_eq!(fixture.manager.status().reloads, 1);
    following.abort();
}

#[tokio::test]
async fn watch_false_disables_watching() {
    let fixture = ManagerFixture::new(&format!("watch: false\n{}", total_rule("1/1h")));
    let following = tokio::spawn(fixture.manager.clone().watch());
    poll_times(&fixture, 1).await;
    fixture.write(&format!("watch: false\n{}", total_rule("22/1h")));
    poll_times(&fixture, 3).await;
    assert_eq!(fixture.manager.status().reloads, 0);
    following.abort();
}
