//! Terminal style of the output, and diagnostics in that style.

use std::io::{self, IsTerminal};

use sluicegate_config::{RenderStyle, Report};
use sluicegate_terminal::{CommandOutput, Exit};

/// Terminal style: with or without colours.
#[derive(Clone, Copy)]
pub(crate) struct TerminalStyle {
    pub(crate) out: RenderStyle,
    pub(crate) err: RenderStyle,
}

impl TerminalStyle {
    /// Uses colours on a terminal unless `NO_COLOR` is set.
    pub(crate) fn detect() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = |terminal: bool| if terminal && !no_color { RenderStyle::Coloured } else { RenderStyle::Plain };
        Self { out: style(io::stdout().is_terminal()), err: style(io::stderr().is_terminal()) }
    }
}

/// Output for invalid rules.
pub(crate) fn invalid_rules(report: &Report, style: TerminalStyle) -> CommandOutput {
    let count = match report.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    };
    let err = format!("{}\n\n{count}: invalid rule file\n", report.render(style.err));
    CommandOutput { out: String::new(), err, exit: Exit::Failure }
}
