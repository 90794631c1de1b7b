//! Markdown page with the results.

use std::fmt::Write;

use sluicegate_testkit::overload::experiment::ServerShape;

use crate::figures::{self, EVENTS, Figure, GATES};
use crate::{CONTENDERS, Contender};

const HEAD: &str = "\
# Comparison of adaptive concurrency limits

This page compares `adaptive: auto` with the adaptive limiters of other projects. `make bench-adaptive` writes it; do
not edit it. All results are simulated in virtual time with seeded random numbers (`crates/testkit/src/overload`):
every algorithm gets the same requests, and a second run writes the same bytes.

The other algorithms are those of Netflix concurrency-limits (`VegasLimit`, `Gradient2Limit` with windows of one
second, `AIMDLimit`), Sentinel's system rule and kratos' `bbr`. They are reimplemented with their default constants.
None of them has priority classes or a request queue; Sluicegate has both, and that is part of the result. Sentinel
and kratos act on CPU use, so a load that leaves the CPU idle is outside of their scope. Steady loads start at full
strength and are measured from the fifth second: kratos' smoothed CPU use takes about sixteen seconds to react, and
has learned the overload by then.

Notes on the results:

- Sluicegate was tuned on these scenarios, with other seeds. The other algorithms run with their defaults and could be
  tuned too. `make bench-adaptive-seeds` prints every gate for twenty sets of seeds that were not used for tuning. Of
  these 2,100 figures, five miss their gate: one step of \"bimodal\" has, seven seconds later, a half second with a p99
  more than a tenth below its final value, and four drifts of \"20 per second\" are 11 to 16 %.
- Sentinel's system rule compares the load average before it considers requests in flight, and with CPU use alone it
  refuses all requests. Here it considers requests in flight while the CPU is busy, which is more favourable than the
  original.
- Events are measured from some seconds after the change. Sluicegate has losses in between too: when the dependency
  slows down, a quarter of the requests is refused for two seconds; when all work takes twice as long, an experiment
  costs a tenth of the possible goodput in the first three seconds.
- Starts are printed by the same command; the baseline is the p99 of the unprotected server at 0.8 times the capacity.
  A start has no estimates and first doubles the limit. A start in overload has at least 0.93 of the possible goodput
  in its first ten seconds, and a p99 of up to 4.4 times the baseline in the first 2.5. A cold start, in which all
  work takes five times as long for five seconds, has 0.89 or more of the possible goodput in ten seconds. With many
  workers (M/M/64) it has only 0.65 to 0.89, because their number has to be found twice, and with 20 requests per
  second 0.31 to 0.67, because four responses per second contain little information. Its p99 is 4 to 16 times the
  baseline in the first 2.5 seconds; the longer work itself accounts for a factor of five. About one run in thirty
  continues for some seconds with two to three times the limit it needs.
- The recovery time ends when no request is refused and p99 is at most a quarter above its value without overload:
  half a second of responses does not distinguish a tenth from chance.
- Scenarios with few requests use more seeds, so that each figure covers as many responses. The drift is that of a
  single run with work four times as long: at five responses per second, one or two slots are distinguished from
  chance only over many minutes.
- This is a simulation. The behaviour of a real server has to be measured on that server.

";

const PLOTS: &str = "
## Plots

Eight shared cores, 10 ms of work on average, clients with a timeout of two seconds.

Goodput by offered load, both as multiples of the capacity:

![Goodput against offered load](adaptive/goodput.svg)

p99 of admitted requests by offered load:

![p99 against offered load](adaptive/p99.svg)

Limit over time; the load steps from half to three times the capacity at 10 s:

![Limit over time in a step](adaptive/step.svg)

Limit during half an hour of twofold overload (40 ms of work):

![Limit over time in half an hour of overload](adaptive/overload.svg)
";

fn row(name: &str, figures: &[Figure]) -> String {
    let mut row = format!("| {name} |");
    for Figure { text, passes: met } in figures {
        let _ = write!(row, " {text} {} |", if *met { "✓" } else { "✗" });
    }
    row.push('\n');
    row
}

/// Table row of one control law for the gates.
pub(crate) fn gates(law: Contender, shape: &ServerShape) -> String {
    row(law.name, &figures::gates(law, shape))
}

/// Table row of one control law for the events.
pub(crate) fn events(law: Contender) -> String {
    row(law.name, &figures::events(law))
}

fn heading(page: &mut String, columns: impl Iterator<Item = &'static str>) {
    let names: Vec<&str> = columns.collect();
    let _ = writeln!(page, "| algorithm | {} |", names.join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(names.len()));
}

fn legend(page: &mut String, columns: &[(&str, &str)]) {
    for (name, meaning) in columns {
        let _ = writeln!(page, "- **{name}**: {meaning}");
    }
    page.push('\n');
}

/// Writes the page with these rows.
pub(crate) fn write(gates: impl Fn(Contender, &ServerShape) -> String, events: impl Fn(Contender) -> String) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Gates\n\n✓: gate met. ✗: gate missed.\n\n");
    legend(&mut page, &GATES);
    for shape in ServerShape::ALL {
        let _ = writeln!(page, "### {}\n", shape.name);
        heading(&mut page, GATES.iter().map(|gate| gate.0));
        for law in CONTENDERS {
            page.push_str(&gates(law, &shape));
        }
        page.push('\n');
    }
    page.push_str("## Events\n\nGoodput relative to the possible goodput / p99 in multiples of the unprotected ");
    page.push_str("server's at 0.8 load.\n✓: at least 0.95 and at most 3.\n\n");
    legend(&mut page, &EVENTS);
    heading(&mut page, EVENTS.iter().map(|event| event.0));
    for law in CONTENDERS {
        page.push_str(&events(law));
    }
    page.push_str(PLOTS);
    page
}
