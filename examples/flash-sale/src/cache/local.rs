//! The cache of a shop that is one process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Glance, Known, Reservation, Reserved};
use crate::database::Stock;
use crate::order::Purchase;

/// The cache. Clones are of the same one.
#[derive(Clone, Default)]
pub struct LocalCache(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    stock: Option<Stock>,
    /// By the order's id.
    reservations: HashMap<String, Reservation>,
    /// By the buyer.
    orders: HashMap<String, Known>,
}

impl LocalCache {
    pub(super) fn glance(&self, buyer: &str) -> Option<Glance> {
        let inner = self.0.lock();
        let stock = inner.stock?;
        Some(Glance { stock, reserved: inner.reserved(), order: inner.orders.get(buyer).cloned() })
    }

    pub(super) fn reserve(&self, purchase: &Purchase, now: i64) -> Reserved {
        let mut inner = self.0.lock();
        let order = purchase.order();
        if inner.reservations.contains_key(&order) {
            return Reserved::Before;
        }
        if let Some(known) = inner.orders.get(purchase.buyer())
            && (known.lives || known.order == order)
        {
            return Reserved::Known(known.clone());
        }
        let Some(stock) = inner.stock else { return Reserved::Empty };
        if stock.left <= inner.reserved() {
            return Reserved::SoldOut;
        }
        inner.reservations.insert(order, Reservation { purchase: purchase.clone(), since: Some(now) });
        inner.note(purchase, true);
        Reserved::Taken
    }

    pub(super) fn queued(&self, purchase: &Purchase) {
        if let Some(reservation) = self.0.lock().reservations.get_mut(&purchase.order()) {
            reservation.since = None;
        }
    }

    pub(super) fn seen(&self, stock: Stock) {
        self.0.lock().seen(stock);
    }

    pub(super) fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) {
        let mut inner = self.0.lock();
        // Together: between the two an item would be there twice, or not at all.
        inner.seen(stock);
        inner.reservations.remove(&purchase.order());
        inner.note(purchase, lives);
    }

    pub(super) fn reservations(&self) -> Vec<Reservation> {
        self.0.lock().reservations.values().cloned().collect()
    }

    pub(super) fn is_reserved(&self, order: &str) -> bool {
        self.0.lock().reservations.contains_key(order)
    }

    pub(super) fn begin_anew(&self, stock: Stock) {
        *self.0.lock() = Inner { stock: Some(stock), ..Inner::default() };
    }

    pub(super) fn remember(&self, purchase: &Purchase) {
        let mut inner = self.0.lock();
        inner.note(purchase, true);
        inner.reservations.insert(purchase.order(), Reservation { purchase: purchase.clone(), since: None });
    }
}

impl Inner {
    fn reserved(&self) -> i64 {
        i64::try_from(self.reservations.len()).unwrap_or(i64::MAX)
    }

    fn seen(&mut self, stock: Stock) {
        if self.stock.is_none_or(|known| known.version < stock.version) {
            self.stock = Some(stock);
        }
    }

    /// An order that ended does not hide another that lives.
    fn note(&mut self, purchase: &Purchase, lives: bool) {
        let order = purchase.order();
        let hidden = |known: &Known| known.lives && known.order != order;
        if lives || !self.orders.get(purchase.buyer()).is_some_and(hidden) {
            self.orders.insert(purchase.buyer().to_owned(), Known { order, lives });
        }
    }
}
