//! What the program says of itself, on standard error.
//!
//! Everything that happens is an event of `tracing`, with its values beside the text; here it becomes a line, for
//! people or for programs.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use sluicegate_config::settings::{LineFormat, Log, LogLevel};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Begins to write lines as the settings say. Later calls change nothing.
pub(super) fn open(log: Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    // Who has set a subscriber before keeps it.
    let _ = match log.format {
        LineFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            tracing::subscriber::set_global_default(lines.finish())
        }
        LineFormat::Text => tracing::subscriber::set_global_default(lines.event_format(ForPeople).finish()),
    };
}

/// Says where everything is to be found: as it stands for people, line by line for programs.
pub(super) fn greet(log: Log, greeting: &str) {
    match log.format {
        // Nobody may be reading; the services go on all the same.
        LineFormat::Text => drop(writeln!(io::stderr().lock(), "{greeting}")),
        LineFormat::Json => greeting.lines().for_each(|line| tracing::info!("{line}")),
    }
}

/// `2026-11-17T03:00:00.123456Z warning: what happened (name: value, name: value)`; what merely happened has no word
/// before it.
struct ForPeople;

impl<S, N> FormatEvent<S, N> for ForPeople
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Line::default();
        event.record(&mut line);
        SystemTime.format_time(&mut writer)?;
        writer.write_char(' ')?;
        match *event.metadata().level() {
            Level::ERROR => writer.write_str("error: ")?,
            Level::WARN => writer.write_str("warning: ")?,
            _ => {}
        }
        writer.write_str(&line.message)?;
        match line.values.is_empty() {
            true => writeln!(writer),
            false => writeln!(writer, " ({})", line.values),
        }
    }
}

/// An event's text and its values. What could break the line or move the cursor is escaped.
#[derive(Default)]
struct Line {
    message: String,
    values: String,
}

impl Line {
    fn add(&mut self, field: &Field, value: &str) {
        let value = value.chars().flat_map(|letter| {
            let escaped = letter.is_control().then(|| letter.escape_default());
            let plain = (!letter.is_control()).then_some(letter);
            escaped.into_iter().flatten().chain(plain)
        });
        if field.name() == "message" {
            self.message.extend(value);
            return;
        }
        if !self.values.is_empty() {
            self.values.push_str(", ");
        }
        self.values.push_str(field.name());
        self.values.push_str(": ");
        self.values.extend(value);
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = write!(text, "{value:?}");
        self.add(field, &text);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Paper {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn written(happens: impl FnOnce()) -> String {
        let paper = Paper::default();
        let lines = tracing_subscriber::fmt().with_writer(paper.clone()).event_format(ForPeople).finish();
        tracing::subscriber::with_default(lines, happens);
        let text = String::from_utf8(paper.0.lock().clone()).unwrap();
        // Without the moment.
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned() + "\n").collect()
    }

    #[test]
    fn lines_say_how_bad_it_is_what_happened_and_with_what() {
        assert_eq!(
            written(|| {
                tracing::info!(version = 3, author = "alice", "other rules are in force");
                tracing::error!("it broke");
            }),
            "other rules are in force (version: 3, author: alice)\nerror: it broke\n"
        );
    }

    /// A name that a client chose must not be able to write a line of its own, nor to paint the terminal.
    #[test]
    fn nothing_breaks_out_of_its_line() {
        let evil = "x\nerror: all is lost\u{1b}[31m";
        assert_eq!(
            written(|| tracing::info!(key = evil, who = %evil, "seen")),
            "seen (key: x\\nerror: all is lost\\u{1b}[31m, who: x\\nerror: all is lost\\u{1b}[31m)\n"
        );
    }
}
