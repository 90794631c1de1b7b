//! Parser for documentation pages: fenced code blocks, and the comments above them.
//!
//! Three comments are recognized, each directly above a fence:
//!
//! - `<!-- file: rules.yaml -->`: the block is saved under this name.
//! - `<!-- tested by: crates/cli/tests/pages/envoy_parts.rs -->`: this test reads the block from the page.
//! - `<!-- not run: why -->`: no test can cover the block, for this reason.

#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

use std::fs;
use std::path::{Path, PathBuf};

/// Comment above a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockNote {
    File(String),
    TestedBy(String),
    NotRun(String),
}

/// A fenced code block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Language of the fence, such as `sh`.
    pub kind: String,
    pub text: String,
    pub note: Option<BlockNote>,
    /// Text between the previous block and this one.
    pub preceding_text: String,
    /// Line number, for messages.
    pub line: usize,
}

impl Block {
    pub fn is_run(&self) -> bool {
        !matches!(self.note, Some(BlockNote::NotRun(_) | BlockNote::TestedBy(_)))
    }

    /// True if the block shows the output of a command.
    pub fn is_output(&self) -> bool {
        self.is_run() && matches!(self.kind.as_str(), "http" | "json" | "text")
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Paths of all pages and READMEs, relative to the repository root.
pub fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "README.zh-CN.md".to_owned()];
    for folder in ["docs", "docs/zh"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        pages.extend(entries.map(|name| format!("{folder}/{}", name.display())).filter(|page| page.ends_with(".md")));
    }
    pages.sort();
    pages
}

/// Blocks of a page, in order.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut note = None;
    let mut preceding = String::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(remark) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            note = remark.strip_prefix("file: ").map(|name| BlockNote::File(name.to_owned()));
            note = note.or_else(|| remark.strip_prefix("tested by: ").map(|test| BlockNote::TestedBy(test.to_owned())));
            note = note.or_else(|| remark.strip_prefix("not run: ").map(|why| BlockNote::NotRun(why.to_owned())));
        } else if let Some(kind) = line.strip_prefix("```") {
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text = text.flat_map(|line| [line, "\n"]).collect();
            let preceding = std::mem::take(&mut preceding);
            blocks.push(Block {
                kind: kind.to_owned(),
                text,
                note: note.take(),
                preceding_text: preceding,
                line: number + 1,
            });
        } else if !line.is_empty() {
            note = None;
            preceding.extend([line, "\n"]);
        }
    }
    blocks
}

/// Commands with their expected outputs, and the files saved before them.
pub struct PageStep {
    /// True if the page says to stop running programs (Ctrl-C) first.
    pub stops: bool,
    pub files: Vec<(String, String)>,
    pub commands: Vec<String>,
    /// Expected outputs.
    pub outputs: Vec<Block>,
    pub line: usize,
}

/// The steps that a reader of the page follows.
pub fn steps(markdown: &str) -> Vec<PageStep> {
    let mut steps: Vec<PageStep> = Vec::new();
    let mut files = Vec::new();
    let mut answers_belong = false;
    let mut stops = false;
    for block in blocks(markdown) {
        stops |= block.preceding_text.contains("Ctrl-C");
        match (&block.note, block.kind.as_str()) {
            (Some(BlockNote::File(name)), _) => files.push((name.clone(), block.text)),
            (None, "sh") => {
                answers_belong = true;
                let commands = commands(&block.text);
                let (files, stops) = (std::mem::take(&mut files), std::mem::take(&mut stops));
                steps.push(PageStep { stops, files, commands, outputs: Vec::new(), line: block.line });
            }
            (Some(BlockNote::NotRun(_)), "sh") => answers_belong = false,
            _ if block.is_output() && answers_belong => steps.last_mut().unwrap().outputs.push(block),
            _ => (),
        }
    }
    steps
}

/// Commands of a block, one line each, without comments; a trailing backslash continues the line. `make test` is
/// skipped, since it runs this test.
pub fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split("  #").next().unwrap_or(line).trim_end());
    lines.filter(|line| !line.is_empty() && *line != "make test").map(str::to_owned).collect()
}
