//! Logging: the `tracing` subscriber that writes to standard error.
//!
//! Every event becomes one line with its fields, as text or as JSON.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use sluicegate_config::settings::{Log, LogLevel, ProcessLogFormat};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Installs the subscriber. Later calls change nothing.
pub(super) fn init(log: Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    // A subscriber that was set before stays.
    let _ = match log.format {
        ProcessLogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            tracing::subscriber::set_global_default(lines.finish())
        }
        ProcessLogFormat::Text => tracing::subscriber::set_global_default(lines.event_format(HumanFormat).finish()),
    };
}

/// Prints the startup banner: as it is in text format, as one event per line in JSON format.
pub(super) fn print_banner(log: Log, banner: &str) {
    match log.format {
        // Write errors are ignored: the services continue.
        ProcessLogFormat::Text => drop(writeln!(io::stderr().lock(), "{banner}")),
        ProcessLogFormat::Json => banner.lines().for_each(|line| tracing::info!("{line}")),
    }
}

/// Text format: `2026-11-17T03:00:00.123456Z warning: message (name: value, name: value)`. Info events have no
/// level.
struct HumanFormat;

impl<S, N> FormatEvent<S, N> for HumanFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = LogLine::default();
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

/// Message and fields of an event. Control characters are escaped, so that they cannot break the line or move the
/// cursor.
#[derive(Default)]
struct LogLine {
    message: String,
    values: String,
}

impl LogLine {
    fn add(&mut self, field: &Field, value: &str) {
        let value = value.chars().flat_map(|character| {
            let escaped = character.is_control().then(|| character.escape_default());
            let plain = (!character.is_control()).then_some(character);
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

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a string does not fail.
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
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for SharedBuffer {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn capture(action: impl FnOnce()) -> String {
        let buffer = SharedBuffer::default();
        let lines = tracing_subscriber::fmt().with_writer(buffer.clone()).event_format(HumanFormat).finish();
        tracing::subscriber::with_default(lines, action);
        let text = String::from_utf8(buffer.0.lock().clone()).unwrap();
        // Without the timestamp.
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned() + "\n").collect()
    }

    #[test]
    fn log_lines_have_level_message_and_fields() {
        assert_eq!(
            capture(|| {
                tracing::info!(version = 3, author = "alice", "rules applied");
                tracing::error!("disk full");
            }),
            "rules applied (version: 3, author: alice)\nerror: disk full\n"
        );
    }

    /// A name chosen by a client must not be able to inject a log line or an escape sequence.
    #[test]
    fn log_fields_cannot_inject_lines() {
        let malicious = "x\nerror: forged line\u{1b}[31m";
        assert_eq!(
            capture(|| tracing::info!(key = malicious, who = %malicious, "seen")),
            "seen (key: x\\nerror: forged line\\u{1b}[31m, who: x\\nerror: forged line\\u{1b}[31m)\n"
        );
    }
}
