//! The first limiter: ask, and go on or not.
//!
//! `cargo run -p sluicegate --example first_limiter`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;

use sluicegate::{Limiter, Verdict};

fn main() -> Result<(), Box<dyn Error>> {
    // Never more than three in any minute.
    let limiter = Limiter::new("3/1m".parse()?);

    for call in 1..=4 {
        let decision = limiter.check();
        match decision.verdict {
            Verdict::Allowed => println!("call {call}: go on, {} left", decision.status.remaining),
            Verdict::Denied { retry_after: Some(wait) } => println!("call {call}: not now, in {} s", wait.as_secs()),
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
