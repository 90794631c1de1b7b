//! The dashboard in a real browser during a sale.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sluicegate_flash_sale::drive::{Scenario, Target, drive};
use sluicegate_flash_sale::shop::Step;
use tokio::task::spawn_blocking;

use crate::browser::{Browser, Viewport};
use crate::support::{CROWD, TempDir, app_settings, open_app};

/// Number of refused requests on the page of a rule: its second figure.
const REFUSED: &str =
    "return Number(document.querySelectorAll('main .facts .pair b')[1]?.textContent.replaceAll(/\\D/g, '') || 0)";

/// The dashboard lists the rules of the sale, and their counts increase while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_the_sale_while_it_runs() {
    let dir = TempDir::new();
    let app = open_app(app_settings(dir.shop())).await;
    let (target, dashboard) = (Target::default().with_process(app.addresses()), app.addresses().dashboard);
    // Repeats the sale until the browser is done.
    let done = Arc::new(AtomicBool::new(false));
    let sale = {
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                drive(&target, Scenario::Shop(Step::Limit), CROWD).await.unwrap();
            }
        })
    };
    let last = spawn_blocking(move || {
        let browser = Browser::open(dashboard, Viewport::WIDE);
        browser.go("");
        for rule in ["limited-sale", "gateway-sale", "queued-sale"] {
            browser.wait_for_text(&format!(".card[data-rule={rule}]"), rule);
        }
        browser.go("#/rule?name=limited-sale");
        browser.wait_for_text("main h1", "limited-sale");
        let mut last = 0;
        for _ in 0..3 {
            browser.until("more are refused", &format!("{REFUSED} > arguments[0]"), &[json!(last)]);
            last = browser.run(REFUSED, &[]).as_u64().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        browser.save_screenshot("sale");
        browser.assert_clean(&[]);
        last
    });
    let last = last.await.unwrap();
    sale.await.unwrap();
    let counts = app.sluice().counts();
    let refused = counts.iter().find(|counts| counts.rule == "limited-sale").unwrap().refused;
    assert!((1..=refused).contains(&last), "the dashboard showed {last} of {refused} refusals");
    app.close().await;
}
