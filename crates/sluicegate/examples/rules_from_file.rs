//! Decides requests by the rules of a file.
//!
//! `cargo run -p sluicegate --example rules_from_file`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;

use sluicegate::rule::{Attribute, AttributeMap, Request};

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules/shop.yaml");

fn main() -> Result<(), Box<dyn Error>> {
    let sluice = sluicegate::load(SHOP)?;

    // An adapter builds the request; attributes are looked up only if a rule uses them.
    let alice = AttributeMap::new().with(Attribute::custom("account"), "alice");
    let order = Request::new("POST", "/api/orders").with_client_ip([203, 0, 113, 7]).with_attributes(&alice);

    for number in 1..=4 {
        // Keep the outcome until the response is sent: it holds the permits.
        let outcome = sluice.decide(&order);
        match outcome.rule() {
            None => println!("order {number}: served"),
            Some(rule) => println!("order {number}: refused by {}", rule.name),
        }
        assert_eq!(outcome.is_admitted(), number <= 3);
    }
    for count in sluice.counts() {
        println!("{}: {} admitted, {} refused", count.rule, count.admitted, count.refused);
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
