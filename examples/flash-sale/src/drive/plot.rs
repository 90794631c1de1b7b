//! SVG plot of the reports: self-contained, with a light and a dark color scheme.

use std::fmt::Write;

use super::SaleReport;

const WIDTH: f64 = 720.0;
/// Maximum height of a bar.
const BAR_HEIGHT: f64 = 150.0;
const LEFT: f64 = 20.0;
const TOP: f64 = 60.0;
/// Vertical distance between the panels.
const PANEL_GAP: f64 = 80.0;

const STYLE: &str = "svg{color-scheme:light dark;font:12px system-ui,sans-serif}\
.ground{fill:#fff}.text{fill:#24292f}.faint{fill:#656d76}.base{stroke:#8c959f}.bar{fill:#0969da}\
.original{stroke:#9a6700;stroke-width:2;stroke-dasharray:4 4}.named{fill:#9a6700}\
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#8d96a0}.base{stroke:#6e7681}\
.bar{fill:#4493f8}.original{stroke:#d29922}.named{fill:#d29922}}";

/// One measure of all reports.
struct Panel {
    title: &'static str,
    bars: Vec<Bar>,
}

struct Bar {
    name: &'static str,
    value: f64,
    label: String,
    /// Value of the original sale.
    reference: Option<f64>,
}

/// Draws the reports as an SVG document.
pub fn plot(reports: &[SaleReport]) -> String {
    let panels = [
        panel("stock updates; dashed: the original", reports, |report| report.totals.stock_updates as f64, 1.0, true),
        panel("SQL statements", reports, |report| report.totals.statements as f64, 1.0, false),
        panel("p99 response time, in milliseconds", reports, |report| report.p99.as_secs_f64() * 1e3, 0.1, false),
    ];
    let height = TOP + panels.len() as f64 * (BAR_HEIGHT + PANEL_GAP) - 30.0;
    let title = "A flash sale, step by step";
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        draw(panel, TOP + index as f64 * (BAR_HEIGHT + PANEL_GAP), &mut text);
    }
    text.push_str("</svg>\n");
    text
}

fn panel(
    title: &'static str,
    reports: &[SaleReport],
    value: impl Fn(&SaleReport) -> f64,
    unit: f64,
    with_reference: bool,
) -> Panel {
    let bar = |report: &SaleReport| {
        let value = value(report);
        let label = if unit < 1.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let reference = report.reference_updates().filter(|_| with_reference).map(f64::from);
        Bar { name: report.scenario.name(), value, label, reference }
    };
    Panel { title, bars: reports.iter().map(bar).collect() }
}

fn draw(panel: &Panel, top: f64, text: &mut String) {
    let max = panel.bars.iter().flat_map(|bar| [Some(bar.value), bar.reference]).flatten().fold(1e-9, f64::max);
    let bottom = top + BAR_HEIGHT;
    let y = |value: f64| bottom - value / max * BAR_HEIGHT;
    let slot = (WIDTH - 2.0 * LEFT) / panel.bars.len().max(1) as f64;
    // Writing to a String does not fail.
    let _ = writeln!(text, "<text class=\"text\" x=\"{LEFT}\" y=\"{}\">{}</text>", top - 32.0, panel.title);
    for (index, bar) in panel.bars.iter().enumerate() {
        let (left, middle) = (LEFT + (index as f64 + 0.15) * slot, LEFT + (index as f64 + 0.5) * slot);
        let (width, height) = (slot * 0.7, bottom - y(bar.value));
        let _ = writeln!(
            text,
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            y(bar.value)
        );
        let _ = writeln!(
            text,
            "<text class=\"text\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y(bar.value) - 5.0,
            bar.label
        );
        if let Some(original) = bar.reference {
            let (at, right) = (y(original), left + width);
            let _ = writeln!(text, "<path class=\"original\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>");
            let _ = writeln!(
                text,
                "<text class=\"named\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{original:.0}</text>",
                at - 5.0
            );
        }
        let _ = writeln!(
            text,
            "<text class=\"faint\" x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            bar.name
        );
    }
    let _ = writeln!(text, "<path class=\"base\" d=\"M{LEFT} {bottom}H{}\"/>", WIDTH - LEFT);
}
