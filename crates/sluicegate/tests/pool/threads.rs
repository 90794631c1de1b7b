//! Many threads and tasks at once, on the real clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::pool::{Bulkhead, Class};

/// How many are inside by our own count, and the most there ever were.
#[derive(Default)]
struct Mark {
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Mark {
    fn enter(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn never_more_inside_than_promised_and_everybody_gets_in() {
    let bulkhead = Bulkhead::builder(5)
        .class("writes", Class::new().reserve(2).importance(1).wait(Duration::MAX))
        .class("reads", Class::new().max(4).wait(Duration::MAX))
        .class("reports", Class::new().max(1).wait(Duration::MAX))
        .build()
        .unwrap();
    let (all, each) = (Mark::default(), [Mark::default(), Mark::default(), Mark::default()]);
    std::thread::scope(|scope| {
        for worker in 0..12 {
            let class = worker % 3;
            let entrance = bulkhead.class(["writes", "reads", "reports"][class]).unwrap();
            let marks = [&all, &each[class]];
            scope.spawn(move || {
                for round in 0..300 {
                    let place = entrance.acquire().blocking().unwrap();
                    marks.iter().for_each(|mark| mark.enter());
                    if round % 3 == 0 {
                        std::thread::yield_now();
                    }
                    marks.iter().for_each(|mark| mark.leave());
                    drop(place);
                }
            });
        }
    });
    let most = |mark: &Mark| mark.most.load(Ordering::SeqCst);
    assert!(most(&all) <= 5 && most(&each[1]) <= 3 && most(&each[2]) <= 1, "reads may use what is not reserved");
    let status = bulkhead.status();
    assert_eq!(status.in_use, 0);
    assert!(status.classes.iter().all(|class| class.waiting == 0 && class.counts.entered == 1_200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_are_cancelled_at_any_point_lose_no_place() {
    let bulkhead = Bulkhead::builder(3)
        .class("a", Class::new().reserve(1).wait(Duration::MAX))
        .class("b", Class::new().wait(Duration::from_millis(1)))
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..400_u32)
        .map(|task| {
            let entrance = bulkhead.class(["a", "b"][task as usize % 2]).unwrap();
            tokio::spawn(async move {
                let work = entrance.run(async {
                    for _ in 0..task % 5 {
                        tokio::task::yield_now().await;
                    }
                });
                let soon = async {
                    for _ in 0..task % 7 {
                        tokio::task::yield_now().await;
                    }
                };
                if task % 3 == 0 {
                    drop(work.await);
                } else {
                    tokio::select! { _ = work => {}, () = soon => {} }
                }
            })
        })
        .collect();
    for (number, task) in tasks.iter().enumerate() {
        if number % 11 == 0 {
            task.abort();
        }
    }
    for task in tasks {
        drop(task.await);
    }
    let status = bulkhead.status();
    assert_eq!(status.in_use, 0);
    assert!(status.classes.iter().all(|class| class.waiting == 0), "{status:?}");
    let all: Vec<_> = (0..3).map(|_| bulkhead.class("a").unwrap().enter().unwrap()).collect();
    drop(all);
}
