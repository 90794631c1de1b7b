//! The `#[limit]` attribute on functions.
//!
//! `cargo run -p sluicegate --example limited_functions`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

use sluicegate::rule::{Lists, Rule};
use sluicegate::{Limited, Sluice, limit};

/// Two calls in any three seconds per client; further calls return cached results.
#[limit("2/3s", key = ip, on_limit = cached_results)]
fn search(ip: IpAddr, words: &str) -> String {
    format!("fresh results for {words}")
}

fn cached_results(_ip: IpAddr, words: &str) -> String {
    format!("cached results for {words}")
}

struct Shop {
    name: String,
}

impl Shop {
    /// Limited by the rule `create-order`; one call per hour while there is no such rule.
    #[limit("1/1h", rule = "create-order", with("shop" = self.name, "account" = account))]
    fn create_order(&self, account: &str) -> Result<String, Limited> {
        Ok(format!("{account} has ordered from {}", self.name))
    }

    fn try_order(&self) {
        match self.create_order("alice") {
            Ok(order) => println!("{order}"),
            Err(limited) => println!("{limited}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let results = [search(ip, "tea"), search(ip, "tea"), search(ip, "tea")];
    println!("{results:#?}");
    assert!(results[1].starts_with("fresh") && results[2].starts_with("cached"));

    let shop = Shop { name: "The Leaf".to_owned() };
    shop.try_order();
    shop.try_order(); // over the limit of 1/1h
    assert_eq!(sluicegate::attribute::missing_rules(), ["create-order"]);

    // Operators add the rule, usually in a file that `sluicegate::load` reads.
    let sluice = Sluice::builder().rule(Rule::new("create-order", ["2/1m".parse()?])).build()?;
    sluicegate::install(sluice.clone());
    shop.try_order();
    shop.try_order();
    shop.try_order(); // over the limit of 2/1m

    // Rules can be changed at runtime.
    sluice.replace(Vec::new(), Lists::default())?;
    assert!(shop.create_order("alice").is_err()); // 1/1h applies again, and is used up
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
