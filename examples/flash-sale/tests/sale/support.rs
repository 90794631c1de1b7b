//! Houses of a test's own, and what must be true of every sale.

use std::env::temp_dir;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::id;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_flash_sale::drive::{Crowd, Scene, Tally, Target, broken_promises, drive};
use sluicegate_flash_sale::house::{House, HouseSettings, RULES};
use sluicegate_flash_sale::shop::ShopSettings;

/// Twice as fast as the real sale, and shorter: 28 are let in, which is more than twice the items.
pub(crate) const CROWD: Crowd = Crowd { buyers: 200, over: Duration::from_millis(1_400), items: 10 };
pub(crate) const PER_SECOND: u32 = 20;

/// A folder that is gone with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let path = temp_dir().join(format!("sluicegate-flash-sale-{}-{nth}", id()));
        // Left by a process of the same id that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A shop with everything in this folder.
    pub(crate) fn shop(&self) -> ShopSettings {
        ShopSettings {
            database: format!("sqlite:{}", self.0.join("sale.db").display()),
            cache: "memory".to_owned(),
            queue: format!("journal:{}", self.0.join("journal").display()),
            pace: "40/s".to_owned(),
            payment_window: Duration::from_secs(900),
            reservation_window: Duration::from_secs(60),
            claim_after: Duration::from_secs(1),
        }
    }

    /// The options of a process with everything in this folder, by these rules; `more` take the place of the usual ones.
    pub(crate) fn options(&self, rules: &str, pace: &str, more: &[(&str, &str)]) -> Vec<String> {
        let shop = self.shop();
        let file = self.0.join("rules.yaml");
        fs::write(&file, rules).unwrap();
        let file = file.display().to_string();
        let usual = [
            ("--database", shop.database.as_str()),
            ("--queue", &shop.queue),
            ("--rules", &file),
            ("--pace", pace),
            ("--reservation-window", "2"),
            ("--claim-after", "0.5"),
        ];
        let kept = usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
        kept.chain(more).flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn rules() -> String {
    RULES.replace("10/s", &format!("{PER_SECOND}/s"))
}

/// A house on free ports.
pub(crate) fn house(shop: ShopSettings) -> HouseSettings {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    HouseSettings {
        shop,
        listen: free,
        gateway: free,
        dashboard: free,
        rules: rules(),
        limits: "memory".to_owned(),
        consumes: true,
    }
}

pub(crate) async fn open(settings: HouseSettings) -> House {
    House::open(settings).await.unwrap_or_else(|error| panic!("{error}"))
}

/// A sale that keeps every promise and sells everything. How many are served in a given time is up to the machine, so if
/// something is left the crowd comes again, for twice as long; the last sale is the one that sold everything.
pub(crate) async fn sold_out(target: &Target, scene: Scene) -> Vec<Tally> {
    let mut sales = Vec::new();
    let mut crowd = CROWD;
    loop {
        let tally = drive(target, scene, crowd).await.unwrap_or_else(|error| panic!("{scene}: {error}"));
        assert_eq!(broken_promises(&tally), [""; 0], "{tally:?}");
        let (books, is_last) = (tally.books, crowd.over > Duration::from_secs(20));
        sales.push(tally);
        if (books.sold, books.left) == (10, 0) {
            return sales;
        }
        assert!(!is_last, "{sales:?}");
        crowd = Crowd { buyers: crowd.buyers * 2, over: crowd.over * 2, ..crowd };
    }
}
