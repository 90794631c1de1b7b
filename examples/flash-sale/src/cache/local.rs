//! The cache of a shop that is one process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Look, Queued, Reservation, Reserved, Shut, Stage};
use crate::database::Stock;
use crate::order::Purchase;

/// The cache. Clones are of the same one.
#[derive(Clone, Default)]
pub struct LocalCache(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    stock: Option<Stock>,
    /// Whether everything that the database knows has been told.
    whole: bool,
    /// By the order's id.
    reservations: HashMap<String, Reservation>,
    /// Orders that live, by the buyer.
    orders: HashMap<String, String>,
    /// By the order's id: for how many reasons the database may know it.
    traces: HashMap<String, u64>,
}

impl LocalCache {
    pub(super) fn look(&self, purchase: &Purchase, asked: bool) -> Look {
        let mut inner = self.0.lock();
        if inner.whole && inner.reservations.contains_key(&purchase.order()) {
            return Look::Reserved;
        }
        match inner.left_for(purchase, asked) {
            Ok(stock) => {
                inner.leave_trace(purchase);
                Look::Open(stock)
            }
            Err(shut) => Look::Shut(shut),
        }
    }

    pub(super) fn bought_nothing(&self, purchase: &Purchase) {
        let mut inner = self.0.lock();
        let order = purchase.order();
        match inner.traces.get_mut(&order) {
            Some(reasons) if *reasons > 1 => *reasons -= 1,
            _ => drop(inner.traces.remove(&order)),
        }
    }

    pub(super) fn reserve(&self, purchase: &Purchase, now: i64, asked: bool) -> Reserved {
        let mut inner = self.0.lock();
        if inner.whole
            && let Some(reservation) = inner.reservations.get_mut(&purchase.order())
        {
            return match &mut reservation.stage {
                Stage::Ending => Reserved::Ending,
                Stage::Queued => Reserved::Before,
                Stage::Since(since) => {
                    *since = now;
                    Reserved::Before
                }
            };
        }
        match inner.left_for(purchase, asked) {
            Ok(_) => {
                inner.hold(purchase, Stage::Since(now));
                Reserved::Taken
            }
            Err(shut) => Reserved::Shut(shut),
        }
    }

    pub(super) fn queued(&self, purchase: &Purchase) -> Queued {
        let mut inner = self.0.lock();
        let order = purchase.order();
        let has_it = inner.orders.get(purchase.buyer()) == Some(&order);
        match inner.reservations.get_mut(&order) {
            Some(Reservation { stage: Stage::Ending, .. }) => Queued::Ending,
            Some(reservation) => {
                reservation.stage = Stage::Queued;
                Queued::Kept
            }
            // The consumer was quicker.
            None if has_it => Queued::Kept,
            None => Queued::Gone,
        }
    }

    pub(super) fn remember(&self, purchase: &Purchase) {
        self.0.lock().hold(purchase, Stage::Queued);
    }

    pub(super) fn begin_end(&self, purchase: &Purchase, stale: i64) -> bool {
        let mut inner = self.0.lock();
        let Some(reservation) = inner.reservations.get_mut(&purchase.order()) else { return false };
        let ends = matches!(reservation.stage, Stage::Since(since) if since <= stale);
        if ends {
            reservation.stage = Stage::Ending;
        }
        ends
    }

    pub(super) fn seen(&self, stock: Stock) {
        self.0.lock().seen(stock);
    }

    pub(super) fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) {
        let mut inner = self.0.lock();
        let order = purchase.order();
        // Together: between the two an item would be there twice, or not at all.
        inner.seen(stock);
        inner.reservations.remove(&order);
        inner.leave_trace(purchase);
        if lives {
            inner.orders.insert(purchase.buyer().to_owned(), order);
        } else if inner.orders.get(purchase.buyer()) == Some(&order) {
            inner.orders.remove(purchase.buyer());
        }
    }

    pub(super) fn has_no_more(&self, buyer: &str, order: &str) {
        let mut inner = self.0.lock();
        let is_it = inner.orders.get(buyer).is_some_and(|has| has == order);
        // It may have been reserved since.
        if is_it && !inner.reservations.contains_key(order) {
            inner.orders.remove(buyer);
        }
    }

    pub(super) fn reservations(&self) -> Vec<Reservation> {
        self.0.lock().reservations.values().cloned().collect()
    }

    pub(super) fn is_reserved(&self, order: &str) -> bool {
        self.0.lock().reservations.contains_key(order)
    }

    pub(super) fn version(&self) -> Option<i64> {
        self.0.lock().stock.map(|stock| stock.version)
    }

    pub(super) fn declare_whole(&self, stock: Stock) {
        let mut inner = self.0.lock();
        inner.seen(stock);
        inner.whole = true;
    }

    pub(super) fn forget(&self) {
        *self.0.lock() = Inner::default();
    }

    pub(super) fn begin_anew(&self, stock: Stock) {
        *self.0.lock() = Inner { stock: Some(stock), whole: true, ..Inner::default() };
    }
}

impl Inner {
    /// The stock, if there is something in it for this order, which has no reservation.
    fn left_for(&self, purchase: &Purchase, asked: bool) -> Result<Stock, Shut> {
        let Some(stock) = self.stock.filter(|_| self.whole) else { return Err(Shut::NotWhole) };
        let has = self.orders.get(purchase.buyer());
        if let Some(has) = has.filter(|has| self.reservations.contains_key(*has)) {
            return Err(Shut::Has(has.clone()));
        }
        if has.is_some() || (!asked && self.traces.contains_key(&purchase.order())) {
            return Err(Shut::Unsure { has: has.cloned() });
        }
        let reserved = i64::try_from(self.reservations.len()).unwrap_or(i64::MAX);
        if stock.left > reserved { Ok(stock) } else { Err(Shut::SoldOut) }
    }

    fn hold(&mut self, purchase: &Purchase, stage: Stage) {
        let order = purchase.order();
        self.orders.insert(purchase.buyer().to_owned(), order.clone());
        self.reservations.insert(order, Reservation { purchase: purchase.clone(), stage });
    }

    fn leave_trace(&mut self, purchase: &Purchase) {
        *self.traces.entry(purchase.order()).or_default() += 1;
    }

    fn seen(&mut self, stock: Stock) {
        if self.stock.is_none_or(|known| known.version < stock.version) {
            self.stock = Some(stock);
        }
    }
}
