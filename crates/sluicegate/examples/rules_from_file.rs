//! Rules from a file decide whole requests.
//!
//! `cargo run -p sluicegate --example rules_from_file`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;

use sluicegate::rule::{Attribute, AttributeMap, Request};

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules/shop.yaml");

fn main() -> Result<(), Box<dyn Error>> {
    let sluice = sluicegate::load(SHOP)?;

    // An adapter describes what came over the wire; attributes are only looked up if a rule asks for them.
    let alice = AttributeMap::new().with(Attribute::custom("account"), "alice");
    let order = Request::new("POST", "/api/orders").with_client_ip([203, 0, 113, 7]).with_attributes(&alice);

    for number in 1..=4 {
        // Keep the outcome until the request is answered: it holds what was taken.
        let outcome = sluice.decide(&order);
        match outcome.rule() {
            None => println!("order {number}: served"),
            Some(rule) => println!("order {number}: refused by {}", rule.name),
        }
        assert_eq!(outcome.is_admitted(), number <= 3);
    }
    for count in sluice.counts() {
        println!("{}: {} let through, {} refused", count.rule, count.admitted, count.refused);
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
