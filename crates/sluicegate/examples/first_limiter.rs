//! A first limiter: check each call.
//!
//! `cargo run -p sluicegate --example first_limiter`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;

use sluicegate::{Limiter, Verdict};

fn main() -> Result<(), Box<dyn Error>> {
    // At most three in any minute.
    let limiter = Limiter::new("3/1m".parse()?);

    for call in 1..=4 {
        let decision = limiter.check();
        match decision.verdict {
            Verdict::Allowed => println!("call {call}: allowed, {} remaining", decision.status.remaining),
            Verdict::Denied { retry_after: Some(wait) } => {
                println!("call {call}: denied, retry in {} s", wait.as_secs());
            }
            other => println!("call {call}: {other:?}"),
        }
        assert_eq!(decision.is_allowed(), call <= 3);
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
