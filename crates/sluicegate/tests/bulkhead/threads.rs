//! Many threads and tasks at once, on the real clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::bulkhead::{Bulkhead, Class};

/// Independent count of permits in use, and its maximum.
#[derive(Default)]
struct ConcurrencyGauge {
    current: AtomicUsize,
    max: AtomicUsize,
}

impl ConcurrencyGauge {
    fn increment(&self) {
        let in_use = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        self.max.fetch_max(in_use, Ordering::SeqCst);
    }

    fn decrement(&self) {
        self.current.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn limits_hold_across_threads_and_every_caller_is_admitted() {
    let bulkhead = Bulkhead::builder(5)
        .class("writes", Class::new().reserve(2).importance(1).wait(Duration::MAX))
        .class("reads", Class::new().max(4).wait(Duration::MAX))
        .class("reports", Class::new().max(1).wait(Duration::MAX))
        .build()
        .unwrap();
    let (all, each) = (
        ConcurrencyGauge::default(),
        [ConcurrencyGauge::default(), ConcurrencyGauge::default(), ConcurrencyGauge::default()],
    );
    std::thread::scope(|scope| {
        for worker in 0..12 {
            let class = worker % 3;
            let handle = bulkhead.class(["writes", "reads", "reports"][class]).unwrap();
            let marks = [&all, &each[class]];
            scope.spawn(move || {
                for round in 0..300 {
                    let permit = handle.acquire().blocking().unwrap();
                    marks.iter().for_each(|mark| mark.increment());
                    if round % 3 == 0 {
                        std::thread::yield_now();
                    }
                    marks.iter().for_each(|mark| mark.decrement());
                    drop(permit);
                }
            });
        }
    });
    let max = |mark: &ConcurrencyGauge| mark.max.load(Ordering::SeqCst);
    assert!(max(&all) <= 5 && max(&each[1]) <= 3 && max(&each[2]) <= 1, "reads use only unreserved permits");
    let status = bulkhead.status();
    assert_eq!(status.in_use, 0);
    assert!(status.classes.iter().all(|class| class.waiting == 0 && class.counts.admitted == 1_200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_tasks_leak_no_permit() {
    let bulkhead = Bulkhead::builder(3)
        .class("a", Class::new().reserve(1).wait(Duration::MAX))
        .class("b", Class::new().wait(Duration::from_millis(1)))
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..400_u32)
        .map(|task| {
            let handle = bulkhead.class(["a", "b"][task as usize % 2]).unwrap();
            tokio::spawn(async move {
                let work = handle.run(async {
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
    let all: Vec<_> = (0..3).map(|_| bulkhead.class("a").unwrap().try_acquire().unwrap()).collect();
    drop(all);
}
