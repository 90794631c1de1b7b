//! Tables as this command draws them.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// The widest a table gets. Wider ones would break on most terminals, and cells wrap well.
const WIDEST: u16 = 120;

/// How rows are told apart.
#[derive(Clone, Copy)]
pub(crate) enum Rows {
    /// By lines: cells have several lines of their own.
    Ruled,
    /// Not at all: one line each, mostly.
    Plain,
}

/// Words longer than this may be broken.
const LONGEST_WORD: usize = 24;

/// Draws a table; every line ends where its text does. Cells wrap between words.
pub(crate) fn draw<const N: usize>(rows: Rows, header: [&str; N], cells: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    match rows {
        Rows::Ruled => table.load_style(presets::UTF8_HORIZONTAL_ONLY),
        Rows::Plain => table.load_style(presets::NOTHING),
    };
    let widths = header.iter().enumerate().map(|(column, name)| {
        let texts = cells.iter().map(|row| row[column].as_str()).chain([*name]);
        let words = texts.flat_map(str::split_whitespace).map(|word| word.chars().count());
        // A blank on either side.
        words.max().unwrap_or_default().min(LONGEST_WORD) as u16 + 2
    });
    let widths: Vec<u16> = widths.collect();
    let width = widths.iter().sum::<u16>().max(WIDEST);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(header.map(str::to_uppercase));
    table.add_rows(cells);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
