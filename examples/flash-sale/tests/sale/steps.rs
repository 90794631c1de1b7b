//! Every step on both databases.

use sluicegate_flash_sale::app::{AppSettings, RULES};
use sluicegate_flash_sale::drive::{Crowd, SaleReport, Scenario, Target, drive, plot, table, violated_invariants};
use sluicegate_flash_sale::shop::{ShopSettings, Step};
use sluicegate_testkit::servers::MariaDb;

use crate::support::{TempDir, app_settings, open_app, run_until_sold_out};

/// Runs each step and compares their load on the database.
async fn every_step(settings: ShopSettings) {
    let app = open_app(app_settings(settings)).await;
    let target = Target::default().with_process(app.addresses());
    let mut reports = Vec::new();
    let mut limited = Vec::new();
    for scenario in Scenario::ALL {
        let mut sales = run_until_sold_out(&target, scenario).await;
        limited.push(sales.iter().map(|report| u64::from(report.limited)).sum::<u64>());
        reports.push(sales.pop().unwrap());
    }
    let [plain, lock, cache, limit, gateway, queue] = &reports[..] else { panic!("six") };
    // All buyers reach the database without a cache; with it, those after the last item do not.
    assert!(plain.totals.statements >= u64::from(plain.crowd.buyers) * 3, "{plain:?}");
    assert!(lock.totals.statements >= u64::from(lock.crowd.buyers), "{lock:?}");
    assert!(cache.totals.statements < lock.totals.statements, "{cache:?}");
    assert_eq!((plain.limited, lock.limited, cache.limited), (0, 0, 0));
    for report in [limit, gateway, queue] {
        assert!(report.limited > report.crowd.buyers / 2, "{report:?}");
    }
    assert_eq!(queue.totals.stock_updates, 10, "{queue:?}");
    for (rule, limited) in ["limited-sale", "gateway-sale", "queued-sale"].into_iter().zip(&limited[3..]) {
        let counts = app.sluice().counts();
        let counts = counts.iter().find(|counts| counts.rule == rule).unwrap();
        assert_eq!(counts.refused, *limited, "refusals of {rule}");
    }
    let svg = plot(&reports);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.matches("class=\"bar\"").count() == 18);
    assert_eq!(table(&reports).lines().count(), 8);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_oversells_on_sqlite() {
    let dir = TempDir::new();
    every_step(dir.shop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_oversells_on_mariadb() {
    let (mariadb, dir) = (MariaDb::start().unwrap(), TempDir::new());
    every_step(ShopSettings { database: mariadb.url(), ..dir.shop() }).await;
}

/// Five hundred buyers within five seconds with the default rules, as in `make flash-sale`. Each step has its own
/// application, so that the six sales run concurrently at their real rate.
#[tokio::test(flavor = "multi_thread")]
async fn the_full_crowd_violates_no_invariant() {
    let sales = Scenario::ALL.map(|scenario| {
        tokio::spawn(async move {
            let dir = TempDir::new();
            let app = open_app(AppSettings { rules: RULES.to_owned(), ..app_settings(dir.shop()) }).await;
            let report =
                drive(&Target::default().with_process(app.addresses()), scenario, Crowd::REFERENCE).await.unwrap();
            app.close().await;
            report
        })
    });
    for sale in sales {
        let report = sale.await.unwrap();
        let SaleReport { scenario, totals, .. } = &report;
        assert_eq!(violated_invariants(&report), [""; 0], "{report:?}");
        assert_eq!((totals.oversold(), totals.sold, report.bought), (0, 10, 10), "{report:?}");
        let responses = report.bought + report.limited + report.sold_out + report.lost_race;
        assert_eq!((responses, report.other.len()), (500, 0), "{report:?}");
        match scenario {
            Scenario::Shop(Step::Queue) => assert_eq!(totals.stock_updates, 10, "{report:?}"),
            Scenario::Shop(Step::Limit) | Scenario::Gateway => assert!(totals.stock_updates <= 12, "{report:?}"),
            _ => {}
        }
    }
}

#[test]
fn steps_parse_from_their_names() {
    assert_eq!(Step::ALL.map(|step| step.name().parse::<Step>().unwrap()), Step::ALL);
    assert_eq!(Scenario::ALL.map(|scenario| scenario.name().parse::<Scenario>().unwrap()), Scenario::ALL);
}
