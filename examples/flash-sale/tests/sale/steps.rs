//! Every step, on both databases.

use sluicegate_flash_sale::drive::{Crowd, Scene, Tally, Target, broken_promises, drive, plot, table};
use sluicegate_flash_sale::house::{HouseSettings, RULES};
use sluicegate_flash_sale::shop::{ShopSettings, Step};
use sluicegate_testkit::servers::MariaDb;

use crate::support::{Folder, house, open, sold_out};

/// Each step in turn, and what it shows.
async fn every_step(settings: ShopSettings) {
    let house = open(house(settings)).await;
    let target = Target::default().and(house.addresses());
    let mut tallies = Vec::new();
    let mut limited = Vec::new();
    for scene in Scene::ALL {
        let mut sales = sold_out(&target, scene).await;
        limited.push(sales.iter().map(|tally| u64::from(tally.limited)).sum::<u64>());
        tallies.push(sales.pop().unwrap());
    }
    let [plain, lock, cache, limit, gateway, queue] = &tallies[..] else { panic!("six") };
    // Everybody reaches the database, until the cache keeps away those who come too late.
    assert!(plain.books.statements >= u64::from(plain.crowd.buyers) * 3, "{plain:?}");
    assert!(lock.books.statements >= u64::from(lock.crowd.buyers), "{lock:?}");
    assert!(cache.books.statements < lock.books.statements, "{cache:?}");
    assert_eq!((plain.limited, lock.limited, cache.limited), (0, 0, 0));
    for tally in [limit, gateway, queue] {
        assert!(tally.limited > tally.crowd.buyers / 2, "{tally:?}");
    }
    assert_eq!(queue.books.stock_updates, 10, "{queue:?}");
    for (rule, limited) in ["limited-sale", "gateway-sale", "queued-sale"].into_iter().zip(&limited[3..]) {
        let counts = house.sluice().counts();
        let counts = counts.iter().find(|counts| counts.rule == rule).unwrap();
        assert_eq!(counts.refused, *limited, "what the dashboard shows for {rule}");
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

/// Five hundred buyers within five seconds, as they come to `make flash-sale`, by the rules that it has. Each step has a
/// house of its own, so that all run at once: the pace is that of the real sale, and the six take no longer than one.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_crowd_keeps_every_promise() {
    let sales = Scene::ALL.map(|scene| {
        tokio::spawn(async move {
            let folder = Folder::new();
            let house = open(HouseSettings { rules: RULES.to_owned(), ..house(folder.shop()) }).await;
            let tally = drive(&Target::default().and(house.addresses()), scene, Crowd::ORIGINAL).await.unwrap();
            house.close().await;
            tally
        })
    });
    for sale in sales {
        let tally = sale.await.unwrap();
        let Tally { scene, books, .. } = &tally;
        assert_eq!(broken_promises(&tally), [""; 0], "{tally:?}");
        assert_eq!((books.oversold(), books.sold, tally.bought), (0, 10, 10), "{tally:?}");
        let answered = tally.bought + tally.limited + tally.sold_out + tally.lost_race;
        assert_eq!((answered, tally.other.len()), (500, 0), "{tally:?}");
        match scene {
            Scene::Shop(Step::Queue) => assert_eq!(books.stock_updates, 10, "{tally:?}"),
            Scene::Shop(Step::Limit) | Scene::Gateway => assert!(books.stock_updates <= 12, "{tally:?}"),
            _ => {}
        }
    }
}

#[test]
fn steps_go_by_their_names() {
    assert_eq!(Step::ALL.map(|step| step.name().parse::<Step>().unwrap()), Step::ALL);
    assert_eq!(Scene::ALL.map(|scene| scene.name().parse::<Scene>().unwrap()), Scene::ALL);
}
