//! What a buyer asks for, and what becomes of it.
//!
//! A buyer may buy once. An order is named after the buyer and the key the buyer sent with it
//! (`alice.first`), so that a repeated request is the same order wherever it arrives: in the database it
//! meets its own primary key, in the cache its own reservation, at the consumer its own message.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name of a buyer or key.
const LONGEST: usize = 64;

/// The key of a request that came without one.
pub const ONLY_KEY: &str = "once";

/// A name that cannot be one.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{what} must have 1 to {LONGEST} letters, digits, `-` or `_`")]
pub struct BadName {
    what: &'static str,
}

/// A buyer's wish, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Purchase {
    buyer: String,
    key: String,
}

/// What stands in a message, before anybody has looked at it.
#[derive(Deserialize)]
struct Unchecked {
    buyer: String,
    key: String,
}

impl TryFrom<Unchecked> for Purchase {
    type Error = BadName;

    fn try_from(unchecked: Unchecked) -> Result<Self, BadName> {
        Self::new(unchecked.buyer, unchecked.key)
    }
}

impl Purchase {
    /// A wish of this buyer under this key.
    ///
    /// ```
    /// use sluicegate_flash_sale::Purchase;
    ///
    /// assert_eq!(Purchase::new("alice", "first")?.order(), "alice.first");
    /// assert!(Purchase::new("alice", "two words").is_err());
    /// # Ok::<(), sluicegate_flash_sale::BadName>(())
    /// ```
    pub fn new(buyer: impl Into<String>, key: impl Into<String>) -> Result<Self, BadName> {
        let (buyer, key) = (buyer.into(), key.into());
        check(&buyer, "a buyer")?;
        check(&key, "an idempotency key")?;
        Ok(Self { buyer, key })
    }

    /// Whose it is.
    pub fn buyer(&self) -> &str {
        &self.buyer
    }

    /// The id of its order.
    pub fn order(&self) -> String {
        format!("{}.{}", self.buyer, self.key)
    }

    /// The wish behind an order's id.
    pub fn of_order(id: &str) -> Result<Self, BadName> {
        let (buyer, key) = id.split_once('.').ok_or(BadName { what: "each half of an order's id" })?;
        Self::new(buyer, key)
    }
}

fn check(name: &str, what: &'static str) -> Result<(), BadName> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(fits) { Ok(()) } else { Err(BadName { what }) }
}

/// How an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Reserved, and on its way through the queue.
    Waiting,
    /// The buyer has the item and has yet to pay.
    Unpaid,
    /// Paid.
    Paid,
    /// Not paid in time: the item went back.
    Cancelled,
    /// There was no item left when the order's turn came, or the buyer had another order.
    Refused,
    /// It was reserved, but never got into the queue.
    Expired,
}

impl State {
    /// As it is written in the database.
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

    /// What is written there.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Waiting, Self::Unpaid, Self::Paid, Self::Cancelled, Self::Refused, Self::Expired];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether the buyer has an item by it.
    pub const fn holds_an_item(self) -> bool {
        matches!(self, Self::Unpaid | Self::Paid)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id.
    #[serde(rename = "order")]
    pub id: String,
    /// How it stands.
    pub state: State,
}

impl Order {
    /// The order of a purchase in this state.
    pub fn new(purchase: &Purchase, state: State) -> Self {
        Self { id: purchase.order(), state }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn names_that_could_be_mistaken_for_something_else_are_refused() {
        for name in ["", " ", "a.b", "a b", "a\nb", "é", "{a}", &"x".repeat(65)] {
            assert!(Purchase::new(name, "k").is_err(), "{name}");
            assert!(Purchase::new("b", name).is_err(), "{name}");
        }
        assert!(Purchase::new("x".repeat(64), "A-z_9").is_ok());
    }

    #[test]
    fn an_order_leads_back_to_its_purchase() {
        let purchase = Purchase::new("alice", "first").unwrap();
        assert_eq!(Purchase::of_order(&purchase.order()).unwrap(), purchase);
        assert!(Purchase::of_order("alice").is_err() && Purchase::of_order("a.b.c").is_err());
    }

    #[test]
    fn a_message_with_bad_names_is_none() {
        assert!(serde_json::from_str::<Purchase>(r#"{"buyer":"a","key":"k"}"#).is_ok());
        assert!(serde_json::from_str::<Purchase>(r#"{"buyer":"a.b","key":"k"}"#).is_err());
    }
}
