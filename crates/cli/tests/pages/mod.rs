//! Runs the commands of the documentation and compares their output.
//!
//! Each page with commands (`sh`) is one test with the real program and the real programs around it. An output block (`http`,
//! `json`, `text`) below commands is compared with their output; commands are repeated until it matches, like a
//! reader who repeats a request. `docs.rs` checks that no page with commands is missing here, and that translated
//! pages have the same blocks.

mod envoy_parts;
mod first_run;
mod log_lines;
mod normalize;
pub(crate) mod page;
mod session;
mod standalone_blocks;

use session::Session;

fn follow(name: &str) {
    let steps = page::steps(&page::read(name));
    let brings_its_own = steps.iter().flat_map(|step| &step.commands).any(|it| it.starts_with("python3"));
    let mut session = Session::begin();
    if !brings_its_own {
        session.start_reader_programs();
    }
    steps.iter().for_each(|step| session.run_step(step));
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
    from_envoy_ratelimit: "docs/from-envoy-ratelimit.md",
    from_redis_cell: "docs/from-redis-cell.md",
}
