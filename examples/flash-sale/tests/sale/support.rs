//! Test applications, and a sale that asserts all invariants.

use std::env::temp_dir;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::id;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_flash_sale::app::{App, AppSettings, RULES};
use sluicegate_flash_sale::drive::{Crowd, SaleReport, Scenario, Target, drive, violated_invariants};
use sluicegate_flash_sale::shop::ShopSettings;

/// Shorter than the real sale, at twice the limit: 28 requests are admitted, more than twice the items.
pub(crate) const CROWD: Crowd = Crowd { buyers: 200, over: Duration::from_millis(1_400), items: 10 };
pub(crate) const PER_SECOND: u32 = 20;

/// Temporary directory, removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let path = temp_dir().join(format!("sluicegate-flash-sale-{}-{number}", id()));
        // A killed process with the same id may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Settings of a shop with all files in this directory.
    pub(crate) fn shop(&self) -> ShopSettings {
        ShopSettings {
            database: format!("sqlite:{}", self.0.join("sale.db").display()),
            cache: "memory".to_owned(),
            queue: format!("journal:{}", self.0.join("journal").display()),
            consumer_rate: "40/s".to_owned(),
            payment_window: Duration::from_secs(900),
            reservation_window: Duration::from_secs(60),
            claim_after: Duration::from_secs(1),
        }
    }

    /// Command-line options of a process with all files in this directory; `overrides` replace the defaults.
    pub(crate) fn options(&self, rules: &str, consumer_rate: &str, overrides: &[(&str, &str)]) -> Vec<String> {
        let shop = self.shop();
        let file = self.0.join("rules.yaml");
        fs::write(&file, rules).unwrap();
        let file = file.display().to_string();
        let defaults = [
            ("--database", shop.database.as_str()),
            ("--queue", &shop.queue),
            ("--rules", &file),
            ("--consumer-rate", consumer_rate),
            ("--reservation-window", "2"),
            ("--claim-after", "0.5"),
        ];
        let kept = defaults.iter().filter(|(name, _)| overrides.iter().all(|(other, _)| other != name));
        kept.chain(overrides).flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn rules() -> String {
    RULES.replace("10/s", &format!("{PER_SECOND}/s"))
}

/// Application on free ports.
pub(crate) fn app_settings(shop: ShopSettings) -> AppSettings {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    AppSettings {
        shop,
        listen: free,
        gateway: free,
        dashboard: free,
        rules: rules(),
        limits: "memory".to_owned(),
        run_consumer: true,
    }
}

pub(crate) async fn open_app(settings: AppSettings) -> App {
    App::open(settings).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs sales until one sells all items, and asserts the invariants of each. A slow machine may serve too few buyers:
/// if items are left, the sale is repeated with twice the duration.
pub(crate) async fn run_until_sold_out(target: &Target, scenario: Scenario) -> Vec<SaleReport> {
    let mut sales = Vec::new();
    let mut crowd = CROWD;
    loop {
        let report = drive(target, scenario, crowd).await.unwrap_or_else(|error| panic!("{scenario}: {error}"));
        assert_eq!(violated_invariants(&report), [""; 0], "{report:?}");
        let (totals, is_last) = (report.totals, crowd.over > Duration::from_secs(20));
        sales.push(report);
        if (totals.sold, totals.left) == (10, 0) {
            return sales;
        }
        assert!(!is_last, "{sales:?}");
        crowd = Crowd { buyers: crowd.buyers * 2, over: crowd.over * 2, ..crowd };
    }
}
