//! What the manual shows is typed as a reader would type it, and must be answered as it is shown.
//!
//! Each page with commands (`sh`) is one test: the real program runs, and real neighbours beside it. An answer (`http`,
//! `json`, `text`) below commands is what they print, sooner or later: commands are repeated until it comes, as a
//! reader would who is told "ask five times more". `docs.rs` holds that no page with commands is missing here, and that
//! pages in two languages show the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

mod alike;
mod asides;
mod envoy_parts;
mod first_run;
mod log_lines;
mod page;
mod session;

use session::Session;

fn follow(name: &str) {
    let steps = page::steps(&page::read(name));
    let brings_its_own = steps.iter().flat_map(|step| &step.commands).any(|it| it.starts_with("python3"));
    let mut session = Session::begin();
    if !brings_its_own {
        session.start_programs();
    }
    steps.iter().for_each(|step| session.follow(step));
}

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        $(
            #[test]
            fn $test() {
                follow($page);
            }
        )*
    };
}

pages! {
    start: "docs/start.md",
    readme: "README.md",
    gateway: "docs/gateway.md",
    server: "docs/server.md",
    http_api: "docs/http-api.md",
    resp: "docs/resp.md",
    envoy: "docs/envoy.md",
    operations: "docs/operations.md",
    life_of_a_request: "docs/life-of-a-request.md",
    from_ratelimit: "docs/from-ratelimit.md",
    from_redis_cell: "docs/from-redis-cell.md",
}
