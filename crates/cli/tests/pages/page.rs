//! A page of the manual as its tests see it: fenced blocks, and what a comment above a block says of it.
//!
//! Three comments are known, each right above a fence:
//!
//! - `<!-- file: rules.yaml -->`: a reader saves the block under this name, and so do the tests.
//! - `<!-- held by: crates/cli/tests/pages/envoy_parts.rs -->`: this test reads the block from the page.
//! - `<!-- not run: why -->`: no test can cover the block, for this reason.

#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

use std::fs;
use std::path::{Path, PathBuf};

/// What a comment says of the block below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    File(String),
    HeldBy(String),
    NotRun(String),
}

/// What stands between two fences.
#[derive(Clone, Debug)]
pub struct Block {
    /// The word behind the fence, such as `sh`.
    pub kind: String,
    pub text: String,
    pub note: Option<Note>,
    /// What is said between the block before and this one.
    pub said: String,
    /// Where it begins, for messages.
    pub line: usize,
}

impl Block {
    pub fn is_run(&self) -> bool {
        !matches!(self.note, Some(Note::NotRun(_) | Note::HeldBy(_)))
    }

    /// Whether it shows what a command answered.
    pub fn is_answer(&self) -> bool {
        self.is_run() && matches!(self.kind.as_str(), "http" | "json" | "text")
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page of the manual, by its path from the project's folder; the READMEs, too.
pub fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "README.zh-CN.md".to_owned()];
    for folder in ["docs", "docs/zh"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        pages.extend(entries.map(|name| format!("{folder}/{}", name.display())).filter(|page| page.ends_with(".md")));
    }
    pages.sort();
    pages
}

/// The blocks of a page, in their order.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut note = None;
    let mut said = String::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(remark) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            note = remark.strip_prefix("file: ").map(|name| Note::File(name.to_owned()));
            note = note.or_else(|| remark.strip_prefix("held by: ").map(|test| Note::HeldBy(test.to_owned())));
            note = note.or_else(|| remark.strip_prefix("not run: ").map(|why| Note::NotRun(why.to_owned())));
        } else if let Some(kind) = line.strip_prefix("```") {
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text = text.flat_map(|line| [line, "\n"]).collect();
            let said = std::mem::take(&mut said);
            blocks.push(Block { kind: kind.to_owned(), text, note: note.take(), said, line: number + 1 });
        } else if !line.is_empty() {
            note = None;
            said.extend([line, "\n"]);
        }
    }
    blocks
}

/// Commands with what they are shown to answer, in the order of a page: first what is saved under a name before
/// them.
pub struct Step {
    /// Whether the reader is told to stop what runs, with Ctrl-C, before typing these.
    pub stops: bool,
    pub files: Vec<(String, String)>,
    pub commands: Vec<String>,
    /// An answer each, as it is shown.
    pub answers: Vec<Block>,
    pub line: usize,
}

/// What a reader of the page types.
pub fn steps(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut files = Vec::new();
    let mut answers_belong = false;
    let mut stops = false;
    for block in blocks(markdown) {
        stops |= block.said.contains("Ctrl-C");
        match (&block.note, block.kind.as_str()) {
            (Some(Note::File(name)), _) => files.push((name.clone(), block.text)),
            (None, "sh") => {
                answers_belong = true;
                let commands = commands(&block.text);
                let (files, stops) = (std::mem::take(&mut files), std::mem::take(&mut stops));
                steps.push(Step { stops, files, commands, answers: Vec::new(), line: block.line });
            }
            (Some(Note::NotRun(_)), "sh") => answers_belong = false,
            _ if block.is_answer() && answers_belong => steps.last_mut().unwrap().answers.push(block),
            _ => (),
        }
    }
    steps
}

/// The commands of a block, one line each, without the remarks behind them: lines that end with a backslash go on in
/// the next. `make test` is what runs this.
pub fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split("  #").next().unwrap_or(line).trim_end());
    lines.filter(|line| !line.is_empty() && *line != "make test").map(str::to_owned).collect()
}
