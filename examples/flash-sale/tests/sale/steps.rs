//! Every step, on both databases.

use sluicegate_flash_sale::drive::{Scene, Target, plot, table};
use sluicegate_flash_sale::shop::{ShopSettings, Step};
use sluicegate_testkit::servers::MariaDb;

use crate::support::{CROWD, Folder, house, open, sold_out};

/// Each step in turn, and what it shows.
async fn every_step(settings: ShopSettings) {
    let house = open(house(settings)).await;
    let target = Target::default().and(house.addresses());
    let mut tallies = Vec::new();
    for scene in Scene::ALL {
        tallies.push(sold_out(&target, scene).await);
    }
    let [plain, lock, cache, limit, gateway, queue] = &tallies[..] else { panic!("six") };
    // Everybody reaches the database, until the cache keeps away those who come too late.
    assert!(plain.books.statements >= u64::from(CROWD.buyers) * 3, "{plain:?}");
    assert!(lock.books.statements >= u64::from(CROWD.buyers), "{lock:?}");
    assert!(cache.books.statements < lock.books.statements, "{cache:?}");
    assert_eq!((plain.limited, lock.limited, cache.limited), (0, 0, 0));
    for limited in [limit, gateway, queue] {
        assert!(limited.limited > CROWD.buyers / 2, "{limited:?}");
    }
    assert_eq!(queue.books.stock_updates, 10, "{queue:?}");
    for (rule, tally) in [("limited-sale", limit), ("gateway-sale", gateway), ("queued-sale", queue)] {
        let counts = house.sluice().counts();
        let counts = counts.iter().find(|counts| counts.rule == rule).unwrap();
        assert_eq!(counts.refused, u64::from(tally.limited), "what the dashboard shows for {rule}");
    }
    let drawn = plot(&tallies);
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n") && drawn.matches("class=\"bar\"").count() == 18);
    assert_eq!(table(&tallies).lines().count(), 8);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_oversells_on_sqlite() {
    let folder = Folder::new();
    every_step(folder.shop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_oversells_on_mariadb() {
    let (mariadb, folder) = (MariaDb::start().unwrap(), Folder::new());
    every_step(ShopSettings { database: mariadb.url(), ..folder.shop() }).await;
}

/// The dashboard is there, and names the rules of the sale.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_the_rules() {
    let folder = Folder::new();
    let house = open(house(folder.shop())).await;
    let dashboard = house.addresses().dashboard;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let page = client.get(format!("http://{dashboard}/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let rules = client.get(format!("http://{dashboard}/v1/rules")).send().await.unwrap().text().await.unwrap();
    for rule in ["limited-sale", "gateway-sale", "queued-sale"] {
        assert!(rules.contains(rule), "{rules}");
    }
    assert_eq!(Step::ALL.map(|step| step.name().parse::<Step>().unwrap()), Step::ALL);
    house.close().await;
}
