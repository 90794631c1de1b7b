use super::super::{Fault, Refusal};
use super::*;

#[tokio::test]
async fn another_text_takes_effect_and_goes_on_where_the_old_one_stood() {
    let kept = Kept::new(&total("2/1h"));
    assert!(kept.passes() && kept.passes() && !kept.passes());
    kept.write(&total("3/1h"));
    let applied = kept.keeper.reload().await.unwrap();
    assert_eq!((applied.version, applied.warnings, applied.pending_restart), (2, vec![], vec![]));
    assert!(kept.passes(), "one more than before");
    assert!(!kept.passes(), "and no free burst");
    let status = kept.keeper.status();
    assert_eq!((status.version, status.reloads, status.failed_reloads, status.trouble), (2, 1, 0, None));
    assert_eq!(kept.keeper.source().text, total("3/1h"));
}

/// The last good rules go on; the fault is remembered until a good text comes.
#[tokio::test]
async fn a_bad_text_changes_nothing_and_is_remembered() {
    let kept = Kept::new(&total("1/1h"));
    assert!(kept.passes() && !kept.passes());
    kept.write("rules: [{ name: total, limit: [9/1h] }]\n");
    let Err(Refusal::Faulty(faults)) = kept.keeper.reload().await else { panic!("taken") };
    let [Fault { line: 1, column: 24, help: Some(help), .. }, ..] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!(help, "did you mean `limits`?");
    assert!(!kept.passes());
    let status = kept.keeper.status();
    assert_eq!((status.version, status.failed_reloads), (1, 1));
    assert!(status.trouble.unwrap().message.contains("line 1, column 24"));
    kept.write(&total("2/1h"));
    kept.keeper.reload().await.unwrap();
    assert!(kept.passes());
    assert_eq!(kept.keeper.status().trouble, None);
}

#[tokio::test]
async fn a_file_that_is_gone_or_half_written_changes_nothing() {
    let kept = Kept::new(&total("1/1h"));
    fs::remove_file(kept.path()).unwrap();
    assert!(kept.keeper.reload().await.is_err());
    kept.write("rules: [{ name: to");
    assert!(kept.keeper.reload().await.is_err());
    kept.write("");
    assert!(kept.keeper.reload().await.is_err());
    fs::remove_file(kept.path()).unwrap();
    fs::create_dir(kept.path()).unwrap();
    assert!(kept.keeper.reload().await.is_err());
    assert_eq!(kept.rules(), ["total"]);
    assert_eq!(kept.keeper.status().failed_reloads, 4);
}

#[tokio::test]
async fn what_takes_a_restart_is_named_until_it_is_as_before() {
    let kept = Kept::new(&total("1/1h"));
    kept.write(&format!("{}memory: 1MiB\nadmin: {{ listen: 127.0.0.1:9999 }}\n", total("2/1h")));
    let applied = kept.keeper.reload().await.unwrap();
    assert_eq!(applied.pending_restart, ["memory", "admin"]);
    assert!(kept.passes() && kept.passes(), "the rules are in force all the same");
    kept.write(&total("2/1h"));
    assert_eq!(kept.keeper.reload().await.unwrap().pending_restart, Vec::<String>::new());
}

#[tokio::test]
async fn doubts_are_passed_on() {
    let kept = Kept::new(&total("1/1h"));
    kept.write("rules:\n  - { name: a, limits: [10/s, 1000/s] }\n");
    let applied = kept.keeper.reload().await.unwrap();
    assert_eq!(applied.warnings.len(), 1, "{:?}", applied.warnings);
    assert_eq!(applied.warnings, kept.keeper.check(read(&kept.path())).await.warnings);
}

/// Under load: nobody is admitted beyond the limit because rules were read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reloads_forget_no_limit() {
    let kept = Kept::new(&total("500/1h"));
    let (sluice, keeper) = (kept.sluice.clone(), kept.keeper.clone());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let asking = std::thread::spawn(move || {
        let mut admitted = 0;
        while !stopped.load(Ordering::Relaxed) {
            admitted += u32::from(sluice.decide(&Request::new("GET", "/")).is_admitted());
        }
        admitted
    });
    for nth in 0..1_000 {
        let more = if nth % 2 == 0 { "" } else { "  - { name: other, match: GET /other, limits: [5/s] }\n" };
        kept.write(&format!("rules:\n  - {{ name: total, limits: [500/1h] }}\n{more}"));
        keeper.reload().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(asking.join().unwrap(), 500);
    assert_eq!(kept.keeper.status().reloads, 1_000);
    assert!(kept.keeper.versions().await.unwrap().len() <= 50, "versions are bounded");
}
