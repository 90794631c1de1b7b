//! The page.

use std::fmt::Write;

use sluicegate_testkit::overload::trial::Shape;

use crate::figures::{self, EVENTS, Figure, GATES};
use crate::{LAWS, Law};

const HEAD: &str = "\
# Self-tuning concurrency beside its peers

Written by `make bench-adaptive`; do not edit. Everything here is simulated in virtual time with seeded random numbers
(`crates/testkit/src/overload`), so every law meets the same requests, and a second run writes the same bytes.

The others are the laws of Netflix concurrency-limits (`VegasLimit`, `Gradient2Limit` in windows of a second,
`AIMDLimit`), Sentinel's system rule and kratos' `bbr`, written anew after what they compute, with the constants they come
with. None of them has classes of requests or lets requests wait; ours does both, and that is part of the result. Sentinel
and kratos act on CPU, so a load that leaves it idle is outside of what they promise. Steady loads begin at once and count
from the fifth second on: kratos' smoothed CPU needs about sixteen to notice, and has learned the overload by then.

How to read it:

- Ours was tuned on these scenarios, on other seeds than these; the others run as they come, and could be tuned too.
  What every gate gives on twenty sets of seeds that nothing was tuned on is printed by `make bench-adaptive-seeds`. Of
  2,100 figures five miss theirs: one step of \"bimodal\" has, seven seconds later, a half second whose p99 is more than a
  tenth below what it is in the end, and four drifts of \"20 per second\" are 11 to 16 %.
- Sentinel's system rule compares the load average before it looks at who is inside, and with CPU alone refuses everybody.
  Here it looks at who is inside while the CPU is busy, which is kinder than the original.
- Events count from some seconds after the change. In between ours loses too: when the dependency slows down, a quarter of
  the requests is refused for two seconds; when all work takes twice as long, a tenth of what was possible is lost in the
  first three seconds, to an experiment.
- Starts, as the same command prints them. Nothing is known then, and twice the places are tried first. A start in overload
  has at least 0.93 of what was possible in its first ten seconds, and p99 is up to 4.4 times the usual in the first
  2.5. A cold one, where all work takes five times as long for five seconds, has 0.89 or more of what was possible in ten;
  with many workers (M/M/64) only 0.65 to 0.89, because their number has to be found twice, and with 20 requests per second
  0.31 to 0.67, as four answers in a second say little. Its p99 is 4 to 16 times the usual in the first 2.5 seconds; five
  of them are the work's. One run in thirty or so goes on for some seconds with two to three times the places it needs.
- \"Back\" means that nobody is refused and p99 is at most a quarter over the usual: half a second of answers does not tell
  a tenth from chance.
- Where requests are few, there are more seeds, so that a figure stands for as many answers. The drift is that of a single
  run, with work four times as long: five answers a second tell a place or two from chance only over many minutes.
- It is a simulation. What it says about a real server has to be measured on one.

";

const PICTURES: &str = "
## Pictures

Eight shared cores, 10 ms of work on average, callers who wait for two seconds.

Answers in time, by what is offered (both as multiples of the capacity):

![Goodput against offered load](adaptive/goodput.svg)

The time that 99 in 100 of the admitted stay within, by what is offered:

![p99 against offered load](adaptive/p99.svg)

The limit when the load steps from half to three times the capacity in the tenth second:

![Limit over time in a step](adaptive/step.svg)

The limit in half an hour of twofold overload (work of 40 ms):

![Limit over time in half an hour of overload](adaptive/overload.svg)
";

fn row(name: &str, figures: &[Figure]) -> String {
    let mut row = format!("| {name} |");
    for Figure { text, met } in figures {
        let _ = write!(row, " {text} {} |", if *met { "✓" } else { "✗" });
    }
    row.push('\n');
    row
}

/// The row of a law in the table of gates.
pub(crate) fn gates(law: Law, shape: &Shape) -> String {
    row(law.name, &figures::gates(law, shape))
}

/// The row of a law in the table of events.
pub(crate) fn events(law: Law) -> String {
    row(law.name, &figures::events(law))
}

fn heading(page: &mut String, columns: impl Iterator<Item = &'static str>) {
    let names: Vec<&str> = columns.collect();
    let _ = writeln!(page, "| law | {} |", names.join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(names.len()));
}

fn legend(page: &mut String, columns: &[(&str, &str)]) {
    for (name, meaning) in columns {
        let _ = writeln!(page, "- **{name}**: {meaning}");
    }
    page.push('\n');
}

/// All of it, with these rows.
pub(crate) fn write(gates: impl Fn(Law, &Shape) -> String, events: impl Fn(Law) -> String) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Gates\n\n✓ is a gate met, ✗ one missed.\n\n");
    legend(&mut page, &GATES);
    for shape in Shape::ALL {
        let _ = writeln!(page, "### {}\n", shape.name);
        heading(&mut page, GATES.iter().map(|gate| gate.0));
        for law in LAWS {
            page.push_str(&gates(law, &shape));
        }
        page.push('\n');
    }
    page.push_str(
        "## Events\n\nGoodput, of what was possible, / p99 in multiples of the bare server's at 0.8 load. Met: at ",
    );
    page.push_str("least 0.95 and at most 3.\n\n");
    legend(&mut page, &EVENTS);
    heading(&mut page, EVENTS.iter().map(|event| event.0));
    for law in LAWS {
        page.push_str(&events(law));
    }
    page.push_str(PICTURES);
    page
}
