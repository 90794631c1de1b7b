use std::time::Duration;

use super::*;

/// Lets the follower look at the file so many times.
async fn look(kept: &Kept, times: usize) {
    for _ in 0..times {
        while kept.clock.alarms() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kept.clock.advance(Duration::from_millis(500));
    }
    while kept.clock.alarms() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_changed_file_is_read_once_it_stays_the_same() {
    let kept = Kept::new(&total("1/1h"));
    let following = tokio::spawn(kept.keeper.clone().follow());
    look(&kept, 2).await;
    assert_eq!(kept.keeper.status().reloads, 0);
    kept.write(&total("22/1h"));
    look(&kept, 1).await;
    assert_eq!(kept.keeper.status().reloads, 0, "somebody may still be writing");
    look(&kept, 1).await;
    assert_eq!((kept.keeper.status().reloads, kept.keeper.status().version), (1, 2));
    look(&kept, 3).await;
    assert_eq!(kept.keeper.status().reloads, 1);
    following.abort();
}

/// As editors and mounted folders do it: the name leads to another file.
#[tokio::test]
async fn an_exchanged_file_is_read_and_a_bad_one_is_tried_once() {
    let kept = Kept::new(&total("1/1h"));
    let following = tokio::spawn(kept.keeper.clone().follow());
    look(&kept, 1).await;
    let exchange = |text: &str| {
        fs::write(kept.folder.join("new"), text).unwrap();
        fs::rename(kept.folder.join("new"), kept.path()).unwrap();
    };
    exchange("rules: [oh]");
    look(&kept, 4).await;
    assert_eq!((kept.keeper.status().reloads, kept.keeper.status().failed_reloads), (0, 1));
    exchange(&total("2/1h"));
    look(&kept, 2).await;
    assert_eq!((kept.keeper.status().reloads, kept.keeper.status().trouble), (1, None));
    following.abort();
}

#[tokio::test]
async fn what_was_edited_here_is_not_read_again() {
    let kept = Kept::new(&total("1/1h"));
    let following = tokio::spawn(kept.keeper.clone().follow());
    look(&kept, 1).await;
    kept.keeper.put(edit(&total("2/1h"), None)).await.unwrap();
    look(&kept, 3).await;
    assert_eq!(kept.keeper.status().reloads, 1);
    following.abort();
}

#[tokio::test]
async fn a_file_that_is_not_to_be_watched_is_not() {
    let kept = Kept::new(&format!("watch: false\n{}", total("1/1h")));
    let following = tokio::spawn(kept.keeper.clone().follow());
    look(&kept, 1).await;
    kept.write(&format!("watch: false\n{}", total("22/1h")));
    look(&kept, 3).await;
    assert_eq!(kept.keeper.status().reloads, 0);
    following.abort();
}
