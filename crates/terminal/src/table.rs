//! Text tables of the command output.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Maximum width of a table. Wider ones break on most terminals, and cells wrap well.
const MAX_WIDTH: u16 = 120;

/// Separation of rows.
#[derive(Clone, Copy)]
pub enum RowStyle {
    /// Ruled lines, for cells with several lines.
    Ruled,
    /// No separation, for single-line rows.
    Plain,
}

/// Longer words may be broken.
const MAX_UNBROKEN_WORD: usize = 24;

/// Draws a table without trailing spaces. Cells wrap between words.
pub fn draw<const N: usize>(rows: RowStyle, header: [&str; N], cells: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    match rows {
        RowStyle::Ruled => table.load_style(presets::UTF8_HORIZONTAL_ONLY),
        RowStyle::Plain => table.load_style(presets::NOTHING),
    };
    let widths = header.iter().enumerate().map(|(column, name)| {
        let texts = cells.iter().map(|row| row[column].as_str()).chain([*name]);
        let words = texts.flat_map(str::split_whitespace).map(|word| word.chars().count());
        // One space on either side.
        words.max().unwrap_or_default().min(MAX_UNBROKEN_WORD) as u16 + 2
    });
    let widths: Vec<u16> = widths.collect();
    let width = widths.iter().sum::<u16>().max(MAX_WIDTH);
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
