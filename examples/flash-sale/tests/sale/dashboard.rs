//! The live page beside the sale, looked at by a real browser while buyers come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sluicegate_flash_sale::drive::{Scene, Target, drive};
use sluicegate_flash_sale::shop::Step;
use tokio::task::spawn_blocking;

use crate::browser::{Browser, Looks};
use crate::support::{CROWD, Folder, house, open};

/// How many the rule whose page is open has refused so far: the second of its figures.
const REFUSED: &str =
    "return Number(document.querySelectorAll('main .facts .pair b')[1]?.textContent.replaceAll(/\\D/g, '') || 0)";

/// The rules of the sale are there, and their counts move while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_the_sale_while_it_runs() {
    let folder = Folder::new();
    let house = open(house(folder.shop())).await;
    let (target, dashboard) = (Target::default().and(house.addresses()), house.addresses().dashboard);
    // One sale after the other, until everything has been seen.
    let seen = Arc::new(AtomicBool::new(false));
    let sale = {
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            while !seen.load(Ordering::Relaxed) {
                drive(&target, Scene::Shop(Step::Limit), CROWD).await.unwrap();
            }
        })
    };
    let last = spawn_blocking(move || {
        let browser = Browser::open(dashboard, Looks::WIDE);
        browser.go("");
        for rule in ["limited-sale", "gateway-sale", "queued-sale"] {
            browser.see(&format!(".card[data-rule={rule}]"), rule);
        }
        browser.go("#/rule?name=limited-sale");
        browser.see("main h1", "limited-sale");
        let mut last = 0;
        for _ in 0..3 {
            browser.until("more are refused", &format!("{REFUSED} > arguments[0]"), &[json!(last)]);
            last = browser.run(REFUSED, &[]).as_u64().unwrap();
        }
        seen.store(true, Ordering::Relaxed);
        browser.keep_picture("sale");
        browser.expect_peace(&[]);
        last
    });
    let last = last.await.unwrap();
    sale.await.unwrap();
    let counts = house.sluice().counts();
    let refused = counts.iter().find(|counts| counts.rule == "limited-sale").unwrap().refused;
    assert!((1..=refused).contains(&last), "it showed {last}, of {refused}");
    house.close().await;
}
