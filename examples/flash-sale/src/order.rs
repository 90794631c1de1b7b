//! Purchases and orders.
//!
//! The id of an order consists of the buyer and the idempotency key of the request (`alice.first`). A repeated request
//! therefore refers to the same order everywhere: to its primary key in the database, its reservation in the cache and
//! its message in the queue.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum length of the name of a buyer and of a key.
const MAX_NAME_LEN: usize = 64;

/// Key of a request without an idempotency key.
pub const DEFAULT_KEY: &str = "once";

/// Invalid name of a buyer, key or order.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{field} must have 1 to {MAX_NAME_LEN} letters, digits, `-` or `_`")]
pub struct InvalidName {
    field: &'static str,
}

/// Validated purchase request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedPurchase")]
pub struct Purchase {
    buyer: String,
    key: String,
}

/// Purchase request before validation.
#[derive(Deserialize)]
struct UncheckedPurchase {
    buyer: String,
    key: String,
}

impl TryFrom<UncheckedPurchase> for Purchase {
    type Error = InvalidName;

    fn try_from(unchecked: UncheckedPurchase) -> Result<Self, InvalidName> {
        Self::new(unchecked.buyer, unchecked.key)
    }
}

impl Purchase {
    /// Validates the names of the buyer and of the idempotency key.
    ///
    /// ```
    /// use sluicegate_flash_sale::Purchase;
    ///
    /// assert_eq!(Purchase::new("alice", "first")?.order_id(), "alice.first");
    /// assert!(Purchase::new("alice", "two words").is_err());
    /// # Ok::<(), sluicegate_flash_sale::InvalidName>(())
    /// ```
    pub fn new(buyer: impl Into<String>, key: impl Into<String>) -> Result<Self, InvalidName> {
        let (buyer, key) = (buyer.into(), key.into());
        check(&buyer, "a buyer")?;
        check(&key, "an idempotency key")?;
        Ok(Self { buyer, key })
    }

    /// Name of the buyer.
    pub fn buyer(&self) -> &str {
        &self.buyer
    }

    /// Id of the order.
    pub fn order_id(&self) -> String {
        format!("{}.{}", self.buyer, self.key)
    }

    /// Parses an order id.
    pub fn from_order_id(id: &str) -> Result<Self, InvalidName> {
        let (buyer, key) = id.split_once('.').ok_or(InvalidName { field: "each half of an order id" })?;
        Self::new(buyer, key)
    }
}

fn check(name: &str, field: &'static str) -> Result<(), InvalidName> {
    let is_valid = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    if (1..=MAX_NAME_LEN).contains(&name.len()) && name.chars().all(is_valid) {
        Ok(())
    } else {
        Err(InvalidName { field })
    }
}

/// State of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderState {
    /// Reserved and in the queue.
    Waiting,
    /// The buyer has the item and has not paid yet.
    Unpaid,
    /// Paid.
    Paid,
    /// Not paid in time; the item was returned to the stock.
    Cancelled,
    /// The consumer found no item left, or another order of the buyer.
    Refused,
    /// The reservation expired before the order was known to be in the queue.
    Expired,
}

impl OrderState {
    /// Name in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Unpaid => "unpaid",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }

    /// Parses the name in the database.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Waiting, Self::Unpaid, Self::Paid, Self::Cancelled, Self::Refused, Self::Expired];
        all.into_iter().find(|state| state.name() == name)
    }

    /// True if the order holds an item.
    pub const fn holds_item(self) -> bool {
        matches!(self, Self::Unpaid | Self::Paid)
    }
}

impl fmt::Display for OrderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Order id.
    #[serde(rename = "order")]
    pub id: String,
    /// State of the order.
    pub state: OrderState,
}

impl Order {
    /// Creates the order of a purchase.
    pub fn new(purchase: &Purchase, state: OrderState) -> Self {
        Self { id: purchase.order_id(), state }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn ambiguous_names_are_refused() {
        for name in ["", " ", "a.b", "a b", "a\nb", "é", "{a}", &"x".repeat(65)] {
            assert!(Purchase::new(name, "k").is_err(), "{name}");
            assert!(Purchase::new("b", name).is_err(), "{name}");
        }
        assert!(Purchase::new("x".repeat(64), "A-z_9").is_ok());
    }

    #[test]
    fn an_order_id_parses_back_to_its_purchase() {
        let purchase = Purchase::new("alice", "first").unwrap();
        assert_eq!(Purchase::from_order_id(&purchase.order_id()).unwrap(), purchase);
        assert!(Purchase::from_order_id("alice").is_err() && Purchase::from_order_id("a.b.c").is_err());
    }

    #[test]
    fn a_message_with_invalid_names_is_refused() {
        assert!(serde_json::from_str::<Purchase>(r#"{"buyer":"a","key":"k"}"#).is_ok());
        assert!(serde_json::from_str::<Purchase>(r#"{"buyer":"a.b","key":"k"}"#).is_err());
    }
}
