//! What `docs/flash-sale.md` shows is typed as a reader would type it, and must be answered as it is shown.
//!
//! Two things are not the reader's: the program is built already, so what stands in place of `cargo` runs it at once;
//! and of the servers that a reader has, the test brings its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::network;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::support::Folder;

#[path = "../../../../crates/cli/tests/pages/alike.rs"]
mod alike;
#[path = "../../../../crates/cli/tests/pages/page.rs"]
mod markdown;

use alike::lasting;
use markdown::{Step, blocks, read, root, steps};

const PAGE: &str = "docs/flash-sale.md";

/// Only a guard against hanging.
const GUARD: Duration = Duration::from_secs(120);

/// Whatever the shell prints below this line is the answer to the next command.
const END: &str = "-- end of answer:";

/// Where the commands complain, in the terminal's folder.
const COMPLAINTS: &str = "complaints";

/// Takes Cargo's place. It is asked for the program as the page and the Makefile ask for it, and in no other way.
const CARGO: &str = r#"#!/usr/bin/env bash
[[ "$*" == "run --profile test --locked -p sluicegate-flash-sale -- "* ]] || { echo "cargo $*?" >&2; exit 1; }
exec "$SALE" "${@:8}"
"#;

/// A shell in a folder of its own, which is typed into.
struct Terminal {
    child: Child,
    typed: ChildStdin,
    said: BufReader<ChildStdout>,
    folder: Folder,
}

impl Terminal {
    fn open(mut shell: Command) -> Self {
        let folder = Folder::new();
        let tools = folder.path().join("tools");
        let cargo = tools.join("cargo");
        fs::create_dir(&tools).unwrap();
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let program = env!("CARGO_BIN_EXE_sluicegate-flash-sale");
        shell.env_remove("CARGO").env("SALE", program).env("PATH", path).env("ROOT", root()).current_dir(folder.path());
        shell.stderr(fs::File::create(folder.path().join(COMPLAINTS)).unwrap());
        let mut child = shell.arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (typed, said) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut terminal = Self { child, typed, said, folder };
        // The tests may be run by make, which this one is no part of.
        terminal.answer("unset MAKEFLAGS MFLAGS MAKELEVEL");
        // What `make` does first is look whether the machine has everything.
        terminal.answer("make() { command make -f \"$ROOT/Makefile\" -o setup \"$@\"; }");
        terminal
    }

    /// With the machine's network.
    fn usual() -> Self {
        Self::open(Command::new("bash"))
    }

    /// What these commands print. The last one must succeed.
    fn answer(&mut self, commands: &str) -> String {
        let (code, answer) = self.ask(commands);
        let complaints = fs::read_to_string(self.folder.path().join(COMPLAINTS)).unwrap();
        assert_eq!(code, "0", "{commands}\n{answer}\n{complaints}");
        answer
    }

    fn ask(&mut self, commands: &str) -> (String, String) {
        writeln!(self.typed, "{{\n{commands}\n}} </dev/null; printf '\\n%s %s\\n' '{END}' $?").unwrap();
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "the shell ended:\n{answer}");
            if let Some(code) = line.strip_prefix(END) {
                return (code.trim().to_owned(), answer.trim_end_matches('\n').to_owned() + "\n");
            }
            answer.push_str(&line);
        }
    }

    /// Asks until it is answered so.
    fn until(&mut self, commands: &str, mut is_so: impl FnMut(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let (_, answer) = self.ask(commands);
            if is_so(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < GUARD, "{commands}\nin the end\n{answer}");
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

/// The steps of the page one of whose commands says this.
fn shown(words: &str) -> Vec<Step> {
    let mut steps = steps(&read(PAGE));
    steps.retain(|step| step.commands.iter().any(|command| command.contains(words)));
    assert!(!steps.is_empty(), "{PAGE} does not say {words}");
    steps
}

/// The cells of the first table in a text, row by row.
fn table(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| step ")).take_while(|line| line.starts_with('|'));
    let rows = rows.filter(|line| !line.starts_with("|---"));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// One of a row's columns, as a number.
fn number(table: &[Vec<String>], row: usize, column: &str) -> u32 {
    let at = table[0].iter().position(|name| name == column).unwrap();
    table[row][at].parse().unwrap_or_else(|_| panic!("{column} of {:?}", table[row]))
}

/// The whole crowd at its real pace, in every step: what `make flash-sale` promises, and what the page shows of it.
#[test]
fn the_whole_story_is_as_the_page_tells_it() {
    let mut terminal = Terminal::usual();
    let told = terminal.answer("make flash-sale");
    assert!(told.contains("\ndashboard at http://127.0.0.1:"), "{told}");
    assert!(told.ends_with("plot in target/flash-sale/sale.svg\nevery promise was kept\n"), "{told}");
    assert!(terminal.folder.path().join("target/flash-sale/sale.svg").exists());

    let (shown, came) = (table(&read(PAGE)), table(&told));
    assert_eq!((&came[0], came.len()), (&shown[0], shown.len()), "{told}");
    for row in 1..came.len() {
        let [shown_row, row_came] = [&shown, &came].map(|table| {
            let fixed = ["step", "bought", "oversold", "original"];
            fixed.map(|column| table[row][table[0].iter().position(|name| name == column).unwrap()].clone())
        });
        assert_eq!(row_came, shown_row, "{told}");
        let fates = ["bought", "limited (429)", "sold out", "lost race", "other"].map(|fate| number(&came, row, fate));
        assert_eq!((fates.iter().sum::<u32>(), fates[0], fates[4]), (500, 10, 0), "{told}");
        let updates = number(&came, row, "stock updates");
        match came[row][0].as_str() {
            "plain" | "queue" => assert_eq!(updates, 10, "{told}"),
            "limit" | "gateway" => assert!((10..=12).contains(&updates), "{told}"),
            _ => assert!(updates >= 10, "{told}"),
        }
    }
}

#[test]
fn the_sale_takes_the_options_that_the_page_shows() {
    for command in shown("--buyers 1000").iter().flat_map(|step| &step.commands) {
        let told = Terminal::usual().answer(command);
        assert!(told.contains("\n1000 buyers in 2 s for 20 items\n"), "{told}");
        assert_eq!(table(&told)[1..].iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["cache", "limit"]);
    }
}

/// On the servers that the page names, all six steps each.
#[test]
fn the_sale_runs_on_the_parts_that_the_page_shows() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let ours = [
        ("mysql://shop:PASSWORD@127.0.0.1:3306/shop", mariadb.url()),
        ("redis://127.0.0.1:6379", redis.url()),
        ("amqp://127.0.0.1:5672/%2f", rabbit.url()),
    ];
    for (theirs, _) in &ours {
        shown(theirs);
    }
    // One after the other: two of them share a Redis.
    for command in shown("--database mysql").iter().flat_map(|step| &step.commands) {
        let command = ours.iter().fold(command.clone(), |command, (theirs, ours)| command.replace(theirs, ours));
        let told = Terminal::usual().answer(&command);
        assert!(told.ends_with("every promise was kept\n") && table(&told).len() == 7, "{command}\n{told}");
    }
}

/// A step whose first command goes on until it is stopped.
fn stays(step: &Step) -> bool {
    step.commands.iter().any(|command| command.contains(" -- shop"))
}

/// From the shop by itself on, in one terminal, at the ports that the page names.
#[test]
fn the_shops_answer_as_the_page_shows() {
    let Some(network) = network::shell() else { return };
    let mut terminal = Terminal::open(network);
    terminal.answer("redis-server --port 6379 --save '' >redis.log & ");
    terminal.until("redis-cli ping", |said| said == "PONG\n");
    let all = steps(&read(PAGE));
    let first = all.iter().position(stays).unwrap();
    let mut opened = 0;
    let mut running = Vec::new();
    for step in &all[first..] {
        if stays(step) {
            // Ctrl-C, as the page says.
            for shop in running.drain(..) {
                terminal.answer(&format!("kill {shop}\nwait {shop}"));
            }
            for command in &step.commands {
                if !command.contains(" -- shop") {
                    terminal.answer(command);
                    continue;
                }
                opened += 1;
                let log = format!("shop-{opened}.log");
                running
                    .push(terminal.answer(&format!("{} >{log} 2>&1 & echo $!", command.trim_end_matches([' ', '&']))));
                let said = terminal.until(&format!("cat {log}"), |said| said.contains("\ntry: "));
                for shown in &step.answers {
                    assert_eq!(said, shown.text, "line {}", shown.line);
                }
            }
            continue;
        }
        let commands = step.commands.join("\n");
        match &step.answers[..] {
            // An order is on its way for a while.
            [shown] if commands.contains("/orders/") => {
                terminal.until(&commands, |said| alike(said) == alike(&shown.text));
            }
            [shown] => assert_eq!(alike(&terminal.answer(&commands)), alike(&shown.text), "line {}", shown.line),
            _ => {
                let told = terminal.answer(&commands);
                assert!(told.ends_with("every promise was kept\n"), "{commands}\n{told}");
            }
        }
    }
    assert_eq!(opened, 3, "one shop, and then two");
}

/// What lasts of an answer: how often the database was asked depends on how often it was asked for.
fn alike(answer: &str) -> Vec<String> {
    let lines = lasting(answer).into_iter();
    lines.map(|line| line.split(",\"statements\":").next().unwrap_or(&line).to_owned()).collect()
}

/// Code is shown as it is in the example.
#[test]
fn the_code_on_the_page_is_that_of_the_shop() {
    let bare = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let source = bare(&read("examples/flash-sale/src/shop/steps.rs"));
    for block in blocks(&read(PAGE)).iter().filter(|block| block.kind == "rust,ignore") {
        assert!(source.contains(&bare(&block.text)), "line {}", block.line);
    }
}
