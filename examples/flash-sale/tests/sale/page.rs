//! Runs the commands of `docs/flash-sale.md` in a shell and compares their output with the page.
//!
//! Two differences: a replacement of `cargo` runs the program that is already built, and the test starts its own
//! servers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::netns;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::support::TempDir;

#[path = "../../../../crates/cli/tests/pages/page.rs"]
mod markdown;
#[path = "../../../../crates/cli/tests/pages/normalize.rs"]
mod normalize;

use markdown::{PageStep, blocks, read, root, steps};
use normalize::stable_lines;

const PAGE: &str = "docs/flash-sale.md";

/// Upper bound of a wait; prevents a hanging test.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Marker after the output of a command, followed by its exit code.
const OUTPUT_END: &str = "-- end of output:";

/// File with the stderr of the commands, in the directory of the terminal.
const STDERR_FILE: &str = "stderr.log";

/// Replacement of Cargo. Accepts only the command line of the page and the Makefile.
const FAKE_CARGO: &str = r#"#!/usr/bin/env bash
[[ "$*" == "run --profile test --locked -p sluicegate-flash-sale -- "* ]] || { echo "cargo $*?" >&2; exit 1; }
exec "$SALE" "${@:8}"
"#;

/// Interactive shell in a temporary directory.
struct Terminal {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    dir: TempDir,
}

impl Terminal {
    fn open(mut shell: Command) -> Self {
        let dir = TempDir::new();
        let tools = dir.path().join("tools");
        let cargo = tools.join("cargo");
        fs::create_dir(&tools).unwrap();
        fs::write(&cargo, FAKE_CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let program = env!("CARGO_BIN_EXE_sluicegate-flash-sale");
        shell.env_remove("CARGO").env("SALE", program).env("PATH", path).env("ROOT", root()).current_dir(dir.path());
        shell.stderr(fs::File::create(dir.path().join(STDERR_FILE)).unwrap());
        let mut child = shell.arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut terminal = Self { child, stdin, stdout, dir };
        // Independent of a `make` that runs the tests.
        terminal.run("unset MAKEFLAGS MFLAGS MAKELEVEL");
        // Skips the target `setup`, which checks the build dependencies.
        terminal.run("make() { command make -f \"$ROOT/Makefile\" -o setup \"$@\"; }");
        terminal
    }

    /// Shell in the network namespace of the host.
    fn with_host_network() -> Self {
        Self::open(Command::new("bash"))
    }

    /// Runs commands and returns their output. Asserts that the last one succeeds.
    fn run(&mut self, commands: &str) -> String {
        let (code, output) = self.run_unchecked(commands);
        let stderr = fs::read_to_string(self.dir.path().join(STDERR_FILE)).unwrap();
        assert_eq!(code, "0", "{commands}\n{output}\n{stderr}");
        output
    }

    /// Runs commands and returns the exit code of the last one and their output.
    fn run_unchecked(&mut self, commands: &str) -> (String, String) {
        writeln!(self.stdin, "{{\n{commands}\n}} </dev/null; printf '\\n%s %s\\n' '{OUTPUT_END}' $?").unwrap();
        let mut output = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the shell ended:\n{output}");
            if let Some(code) = line.strip_prefix(OUTPUT_END) {
                return (code.trim().to_owned(), output.trim_end_matches('\n').to_owned() + "\n");
            }
            output.push_str(&line);
        }
    }

    /// Repeats commands until their output meets the condition.
    fn run_until(&mut self, commands: &str, mut condition: impl FnMut(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let (_, output) = self.run_unchecked(commands);
            if condition(&output) {
                return output;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "timeout: {commands}\n{output}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Steps of the page with a command that contains this text.
fn page_steps(text: &str) -> Vec<PageStep> {
    let mut steps = steps(&read(PAGE));
    steps.retain(|step| step.commands.iter().any(|command| command.contains(text)));
    assert!(!steps.is_empty(), "{PAGE} has no command with {text}");
    steps
}

/// Cells of the first table in a text, by row.
fn table(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| step ")).take_while(|line| line.starts_with('|'));
    let rows = rows.filter(|line| !line.starts_with("|---"));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Number in a column of a row.
fn number(table: &[Vec<String>], row: usize, column: &str) -> u32 {
    let at = table[0].iter().position(|name| name == column).unwrap();
    table[row][at].parse().unwrap_or_else(|_| panic!("{column} of {:?}", table[row]))
}

/// Every step with the full crowd at its real rate, as shown on the page.
#[test]
fn the_full_run_matches_the_page() {
    let mut terminal = Terminal::with_host_network();
    let output = terminal.run("make flash-sale");
    assert!(output.contains("\ndashboard at http://127.0.0.1:"), "{output}");
    assert!(output.ends_with("plot in target/flash-sale/sale.svg\nall invariants hold\n"), "{output}");
    assert!(terminal.dir.path().join("target/flash-sale/sale.svg").exists());

    let (expected, actual) = (table(&read(PAGE)), table(&output));
    assert_eq!((&actual[0], actual.len()), (&expected[0], expected.len()), "{output}");
    for row in 1..actual.len() {
        let [expected_row, actual_row] = [&expected, &actual].map(|table| {
            let fixed = ["step", "bought", "oversold", "original"];
            fixed.map(|column| table[row][table[0].iter().position(|name| name == column).unwrap()].clone())
        });
        assert_eq!(actual_row, expected_row, "{output}");
        let results =
            ["bought", "limited (429)", "sold out", "lost race", "other"].map(|column| number(&actual, row, column));
        assert_eq!((results.iter().sum::<u32>(), results[0], results[4]), (500, 10, 0), "{output}");
        let updates = number(&actual, row, "stock updates");
        match actual[row][0].as_str() {
            "plain" | "queue" => assert_eq!(updates, 10, "{output}"),
            "limit" | "gateway" => assert!((10..=12).contains(&updates), "{output}"),
            _ => assert!(updates >= 10, "{output}"),
        }
    }
}

#[test]
fn the_program_accepts_the_options_on_the_page() {
    for command in page_steps("--buyers 1000").iter().flat_map(|step| &step.commands) {
        let output = Terminal::with_host_network().run(command);
        assert!(output.contains("\n1000 buyers in 2 s for 20 items\n"), "{output}");
        assert_eq!(table(&output)[1..].iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["cache", "limit"]);
    }
}

/// All six steps on each backend of the page.
#[test]
fn the_sale_runs_on_the_backends_on_the_page() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let ours = [
        ("mysql://shop:PASSWORD@127.0.0.1:3306/shop", mariadb.url()),
        ("redis://127.0.0.1:6379", redis.url()),
        ("amqp://127.0.0.1:5672/%2f", rabbit.url()),
    ];
    for (theirs, _) in &ours {
        page_steps(theirs);
    }
    // Sequentially: two of the commands share a Redis server.
    for command in page_steps("--database mysql").iter().flat_map(|step| &step.commands) {
        let command = ours.iter().fold(command.clone(), |command, (theirs, ours)| command.replace(theirs, ours));
        let output = Terminal::with_host_network().run(&command);
        assert!(output.ends_with("all invariants hold\n") && table(&output).len() == 7, "{command}\n{output}");
    }
}

/// True if the step starts a shop, which runs until it is stopped.
fn is_long_running(step: &PageStep) -> bool {
    step.commands.iter().any(|command| command.contains(" -- shop"))
}

/// Runs the commands from the first shop on in one terminal, with the ports of the page.
#[test]
fn the_shops_respond_as_the_page_shows() {
    let Some(network) = netns::shell() else { return };
    let mut terminal = Terminal::open(network);
    terminal.run("redis-server --port 6379 --save '' >redis.log & ");
    terminal.run_until("redis-cli ping", |output| output == "PONG\n");
    let all = steps(&read(PAGE));
    let first = all.iter().position(is_long_running).unwrap();
    let mut opened = 0;
    let mut running = Vec::new();
    for step in &all[first..] {
        if is_long_running(step) {
            // Stop the shops, as with Ctrl-C on the page.
            for shop in running.drain(..) {
                terminal.run(&format!("kill {shop}\nwait {shop}"));
            }
            for command in &step.commands {
                if !command.contains(" -- shop") {
                    terminal.run(command);
                    continue;
                }
                opened += 1;
                let log = format!("shop-{opened}.log");
                running.push(terminal.run(&format!("{} >{log} 2>&1 & echo $!", command.trim_end_matches([' ', '&']))));
                let output = terminal.run_until(&format!("cat {log}"), |output| output.contains("\ntry: "));
                for expected in &step.outputs {
                    assert_eq!(output, expected.text, "line {}", expected.line);
                }
            }
            continue;
        }
        let commands = step.commands.join("\n");
        match &step.outputs[..] {
            // The order may still be in the queue.
            [expected] if commands.contains("/orders/") => {
                terminal
                    .run_until(&commands, |output| mask_variable_parts(output) == mask_variable_parts(&expected.text));
            }
            [expected] => assert_eq!(
                mask_variable_parts(&terminal.run(&commands)),
                mask_variable_parts(&expected.text),
                "line {}",
                expected.line
            ),
            _ => {
                let output = terminal.run(&commands);
                assert!(output.ends_with("all invariants hold\n"), "{commands}\n{output}");
            }
        }
    }
    assert_eq!(opened, 3, "the page starts one shop, and then two");
}

/// Removes variable parts: the number of statements depends on the number of polls.
fn mask_variable_parts(output: &str) -> Vec<String> {
    let lines = stable_lines(output).into_iter();
    lines.map(|line| line.split(",\"statements\":").next().unwrap_or(&line).to_owned()).collect()
}

/// The code on the page is identical to the source.
#[test]
fn the_code_on_the_page_matches_the_source() {
    let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let source = trimmed(&read("examples/flash-sale/src/shop/steps.rs"));
    for block in blocks(&read(PAGE)).iter().filter(|block| block.kind == "rust,ignore") {
        assert!(source.contains(&trimmed(&block.text)), "line {}", block.line);
    }
}
