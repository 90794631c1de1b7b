//! What a sale must keep, whatever the load.

use super::{Scene, Tally};
use crate::shop::Step;

/// How many updates of the stock a limit may let through for nothing.
const WASTED: u64 = 2;

/// What a sale did not keep, a sentence each. Empty for a good one.
pub fn broken_promises(tally: &Tally) -> Vec<String> {
    let Tally { scene, books, bought, .. } = tally;
    let mut broken = Vec::new();
    let mut promise = |kept: bool, otherwise: String| {
        if !kept {
            broken.push(format!("{scene}: {otherwise}"));
        }
    };
    promise(books.oversold() == 0, format!("{} items were sold that do not exist", books.oversold()));
    promise(
        books.left + books.sold == books.items,
        format!("{} left and {} sold are not {}", books.left, books.sold, books.items),
    );
    promise(
        i64::from(*bought) == books.sold,
        format!("{bought} buyers were told that they have one, and {} do", books.sold),
    );
    promise(
        tally.sold_out == 0 || books.left == 0,
        format!("{} buyers were told that nothing is left, and {} are", tally.sold_out, books.left),
    );
    promise(tally.other.is_empty(), format!("buyers were told something else: {}", tally.other.join(", ")));
    let sold = u64::try_from(books.sold).unwrap_or_default();
    let updates = books.stock_updates;
    match scene {
        Scene::Shop(Step::Limit) | Scene::Gateway => {
            promise(updates <= sold + WASTED, format!("{updates} updates of the stock for {sold} items"));
        }
        Scene::Shop(Step::Plain | Step::Queue) => {
            promise(updates == sold, format!("{updates} updates of the stock for {sold} items"));
        }
        Scene::Shop(Step::Lock | Step::Cache) => {}
    }
    broken
}
