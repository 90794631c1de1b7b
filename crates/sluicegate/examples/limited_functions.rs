//! Functions that say themselves how often they may run.
//!
//! `cargo run -p sluicegate --example limited_functions`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

use sluicegate::rule::{Lists, Rule};
use sluicegate::{Limited, Sluice, limit};

/// Two in any three seconds for each client; the others are served from the shelf.
#[limit("2/3s", key = ip, on_limit = from_the_shelf)]
fn search(ip: IpAddr, words: &str) -> String {
    format!("fresh results for {words}")
}

fn from_the_shelf(_ip: IpAddr, words: &str) -> String {
    format!("yesterday's results for {words}")
}

struct Shop {
    name: String,
}

impl Shop {
    /// As the rule `create-order` says, or one an hour until there is such a rule.
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
    let answers = [search(ip, "tea"), search(ip, "tea"), search(ip, "tea")];
    println!("{answers:#?}");
    assert!(answers[1].starts_with("fresh") && answers[2].starts_with("yesterday's"));

    let shop = Shop { name: "The Leaf".to_owned() };
    shop.try_order();
    shop.try_order(); // over one an hour
    assert_eq!(sluicegate::attribute::missing_rules(), ["create-order"]);

    // Operators bring a rule of that name; most often from a file, with `sluicegate::load`.
    let sluice = Sluice::builder().rule(Rule::new("create-order", ["2/1m".parse()?])).build()?;
    sluicegate::install(sluice.clone());
    shop.try_order();
    shop.try_order();
    shop.try_order(); // over two a minute

    // And change it while the program runs.
    sluice.replace(Vec::new(), Lists::default())?;
    assert!(shop.create_order("alice").is_err()); // one an hour again, and that is spent
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
