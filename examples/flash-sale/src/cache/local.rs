//! In-memory cache for a single process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{BlockReason, QueuedReservation, Reservation, ReservationStage, ReserveResult, StockLookup};
use crate::order::Purchase;
use crate::stock::Stock;

/// In-memory cache; clones share its state.
#[derive(Clone, Default)]
pub struct LocalCache(Arc<Mutex<LocalState>>);

#[derive(Default)]
struct LocalState {
    stock: Option<Stock>,
    /// True after the cache has been rebuilt from the database.
    complete: bool,
    /// Reservations by order id.
    reservations: HashMap<String, Reservation>,
    /// Live orders by buyer.
    orders: HashMap<String, String>,
    /// Number of traces by order id.
    traces: HashMap<String, u64>,
}

impl LocalCache {
    pub(super) fn lookup(&self, purchase: &Purchase, confirmed_unknown: bool) -> StockLookup {
        let mut state = self.0.lock();
        if state.complete && state.reservations.contains_key(&purchase.order_id()) {
            return StockLookup::Reserved;
        }
        match state.available_stock(purchase, confirmed_unknown) {
            Ok(stock) => {
                state.add_trace(purchase);
                StockLookup::Available(stock)
            }
            Err(reason) => StockLookup::Blocked(reason),
        }
    }

    pub(super) fn remove_trace(&self, purchase: &Purchase) {
        let mut state = self.0.lock();
        let order = purchase.order_id();
        match state.traces.get_mut(&order) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(state.traces.remove(&order)),
        }
    }

    pub(super) fn reserve(&self, purchase: &Purchase, now: i64, confirmed_unknown: bool) -> ReserveResult {
        let mut state = self.0.lock();
        if state.complete
            && let Some(reservation) = state.reservations.get_mut(&purchase.order_id())
        {
            return match &mut reservation.stage {
                ReservationStage::Expiring => ReserveResult::Expiring,
                ReservationStage::Queued => ReserveResult::Existing,
                ReservationStage::Since(since) => {
                    *since = now;
                    ReserveResult::Existing
                }
            };
        }
        match state.available_stock(purchase, confirmed_unknown) {
            Ok(_) => {
                state.insert_reservation(purchase, ReservationStage::Since(now));
                ReserveResult::New
            }
            Err(reason) => ReserveResult::Blocked(reason),
        }
    }

    pub(super) fn mark_queued(&self, purchase: &Purchase) -> QueuedReservation {
        let mut state = self.0.lock();
        let order = purchase.order_id();
        let is_placed = state.orders.get(purchase.buyer()) == Some(&order);
        match state.reservations.get_mut(&order) {
            Some(Reservation { stage: ReservationStage::Expiring, .. }) => QueuedReservation::Expiring,
            Some(reservation) => {
                reservation.stage = ReservationStage::Queued;
                QueuedReservation::Kept
            }
            // The consumer has already placed the order.
            None if is_placed => QueuedReservation::Kept,
            None => QueuedReservation::Gone,
        }
    }

    pub(super) fn restore_reservation(&self, purchase: &Purchase) {
        self.0.lock().insert_reservation(purchase, ReservationStage::Queued);
    }

    pub(super) fn begin_expiry(&self, purchase: &Purchase, stale: i64) -> bool {
        let mut state = self.0.lock();
        let Some(reservation) = state.reservations.get_mut(&purchase.order_id()) else { return false };
        let is_stale = matches!(reservation.stage, ReservationStage::Since(since) if since <= stale);
        if is_stale {
            reservation.stage = ReservationStage::Expiring;
        }
        is_stale
    }

    pub(super) fn update_stock(&self, stock: Stock) {
        self.0.lock().update_stock(stock);
    }

    pub(super) fn settle_order(&self, purchase: &Purchase, is_live: bool, stock: Stock) {
        let mut state = self.0.lock();
        let order = purchase.order_id();
        // Atomic: between the two updates an item would be counted twice or not at all.
        state.update_stock(stock);
        state.reservations.remove(&order);
        state.add_trace(purchase);
        if is_live {
            state.orders.insert(purchase.buyer().to_owned(), order);
        } else if state.orders.get(purchase.buyer()) == Some(&order) {
            state.orders.remove(purchase.buyer());
        }
    }

    pub(super) fn clear_order(&self, buyer: &str, order: &str) {
        let mut state = self.0.lock();
        let is_current = state.orders.get(buyer).is_some_and(|current| current == order);
        // A new reservation may have been made meanwhile.
        if is_current && !state.reservations.contains_key(order) {
            state.orders.remove(buyer);
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

    pub(super) fn mark_complete(&self, stock: Stock) {
        let mut state = self.0.lock();
        state.update_stock(stock);
        state.complete = true;
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = LocalState::default();
    }

    pub(super) fn start_sale(&self, stock: Stock) {
        *self.0.lock() = LocalState { stock: Some(stock), complete: true, ..LocalState::default() };
    }
}

impl LocalState {
    /// Returns the stock if an item is available for this order. The order has no reservation.
    fn available_stock(&self, purchase: &Purchase, confirmed_unknown: bool) -> Result<Stock, BlockReason> {
        let Some(stock) = self.stock.filter(|_| self.complete) else { return Err(BlockReason::Incomplete) };
        let known_order = self.orders.get(purchase.buyer());
        if let Some(order) = known_order.filter(|order| self.reservations.contains_key(*order)) {
            return Err(BlockReason::HasReservation(order.clone()));
        }
        if known_order.is_some() || (!confirmed_unknown && self.traces.contains_key(&purchase.order_id())) {
            return Err(BlockReason::CheckDatabase { known_order: known_order.cloned() });
        }
        let reserved = i64::try_from(self.reservations.len()).unwrap_or(i64::MAX);
        if stock.left > reserved { Ok(stock) } else { Err(BlockReason::SoldOut) }
    }

    fn insert_reservation(&mut self, purchase: &Purchase, stage: ReservationStage) {
        let order = purchase.order_id();
        self.orders.insert(purchase.buyer().to_owned(), order.clone());
        self.reservations.insert(order, Reservation { purchase: purchase.clone(), stage });
    }

    fn add_trace(&mut self, purchase: &Purchase) {
        *self.traces.entry(purchase.order_id()).or_default() += 1;
    }

    fn update_stock(&mut self, stock: Stock) {
        if self.stock.is_none_or(|known| known.version < stock.version) {
            self.stock = Some(stock);
        }
    }
}
