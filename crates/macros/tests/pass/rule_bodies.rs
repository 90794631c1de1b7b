//! Bodies of functions with a rule run inside the function and keep all their freedoms.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, unused_qualifications, unreachable_pub)]
#![deny(clippy::all, clippy::pedantic)]

use std::error::Error;
use std::fmt::Display;

use sluicegate::{Limited, limit};

/// A type with parts.
pub struct Shelf {
    items: Vec<String>,
}

impl Shelf {
    /// Returns a mutable borrow of `self`.
    #[limit(rule = "shelf")]
    pub fn last(&mut self) -> Result<&mut String, Limited> {
        if self.items.is_empty() {
            self.items.push(String::new());
        }
        let last = self.items.len() - 1;
        Ok(&mut self.items[last])
    }

    /// Returns a borrow of `self` from an `async fn`.
    #[limit(rule = "shelf")]
    pub async fn first(&self) -> Result<&str, Limited> {
        std::future::ready(()).await;
        Ok(self.items.first().map_or("", String::as_str))
    }

    /// Consumes `self`, or an argument.
    #[limit(rule = "shelf", on_limit = Self::kept)]
    pub fn emptied(mut self, into: &mut Vec<String>) -> usize {
        into.append(&mut self.items);
        into.len()
    }

    fn kept(self, _into: &mut Vec<String>) -> usize {
        self.items.len()
    }
}

/// Returns early with `return` and with `?`, with converted errors.
#[limit(rule = "read", with("account" = text))]
pub fn read(text: &str) -> Result<u32, Box<dyn Error>> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: u32 = text.parse()?;
    Err(format!("{number} is not it").into())
}

/// The same in an `async fn`.
#[limit(rule = "read")]
pub async fn read_later(text: &str) -> Result<u32, Box<dyn Error>> {
    if text.is_empty() {
        return Ok(0);
    }
    Ok(std::future::ready(text.parse()?).await)
}

/// Returns `impl Trait`.
#[limit(rule = "shown", on_limit = unshown)]
pub fn shown<T: Display + Clone>(it: &T) -> impl Display + use<T> {
    it.clone()
}

fn unshown<T: Display + Clone>(it: &T) -> T {
    it.clone()
}

/// Returns nothing.
#[limit(rule = "quiet", on_limit = quieter)]
pub fn quiet(_loud: bool) {
    println!("quiet");
}

fn quieter(_loud: bool) {}

/// Returns early from a function that does not return a `Result`.
#[limit(rule = "perhaps", on_limit = never)]
pub fn perhaps(letter: Option<char>, (_x, y): (u32, u32)) -> Option<u32> {
    let letter = letter?;
    Some(u32::from(letter) + y)
}

fn never(_: Option<char>, _: (u32, u32)) -> Option<u32> {
    None
}

/// Never returns.
#[limit(rule = "gone", on_limit = std::process::exit)]
pub fn gone(code: i32) -> ! {
    std::process::exit(code)
}

/// Classifies errors that signal overload.
#[limit(rule = "read", overload = |error: &Box<dyn Error>| error.is::<std::io::Error>())]
pub async fn judged(text: &str) -> Result<u32, Box<dyn Error>> {
    Ok(text.parse()?)
}

fn main() {
    let mut shelf = Shelf { items: vec!["a".to_owned()] };
    assert_eq!(shelf.last().unwrap(), "a");
    assert_eq!(shelf.emptied(&mut Vec::new()), 1);
    assert_eq!(read("").unwrap(), 0);
    assert!(read("x").is_err() && read("7").is_err());
    assert_eq!(shown(&7).to_string(), "7");
    assert_eq!(perhaps(Some('a'), (1, 2)), Some(99));
    quiet(true);
}
