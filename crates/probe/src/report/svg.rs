//! SVG plot: one self-contained file that follows the reader's light or dark theme.

use std::fmt::Write;
use std::time::Duration;

use super::super::criteria::JudgedStep;
use super::super::format::rate;
use super::Findings;
use super::html::escape_html;
use super::plot::{DotKind, Panel, panels};

const WIDTH: f64 = 720.0;
/// Height of a panel.
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
/// Gap between the panels.
const PANEL_GAP: f64 = 70.0;

const STYLE: &str = "svg{color-scheme:light dark;font:12px system-ui,sans-serif}\
.ground{fill:#fff}.text{fill:#24292f}.faint{fill:#656d76}.grid{stroke:#d0d7de}\
.ideal{stroke:#8c959f;stroke-dasharray:4 4;fill:none}.line{stroke:#0969da;stroke-width:1.5;fill:none}\
.good{fill:#0969da}.bad{stroke:#cf222e;stroke-width:2;fill:none}.unclear{stroke:#9a6700;stroke-width:2;fill:none}\
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#8d96a0}.grid{stroke:#30363d}\
.ideal{stroke:#6e7681}.line{stroke:#4493f8}.good{fill:#4493f8}.bad{stroke:#f85149}.unclear{stroke:#d29922}}";

/// Renders the file.
pub(crate) fn svg_plot(findings: &Findings) -> String {
    let title = format!("Load test of {}", findings.target);
    render(&findings.steps, findings.max_p99, &title)
}

fn render(steps: &[JudgedStep], max_p99: Duration, title: &str) -> String {
    let height = TOP + 2.0 * HEIGHT + 2.0 * PANEL_GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        title = escape_html(title)
    );
    for (index, panel) in panels(steps, max_p99).iter().enumerate() {
        text.push_str(&draw(panel, TOP + index as f64 * (HEIGHT + PANEL_GAP)));
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<text class=\"faint\" x=\"{LEFT}\" y=\"{}\">filled: good; cross: not good; ring: unclear; \
         dashed: expected</text>\n</svg>",
        height - 12.0
    );
    text
}

fn draw(panel: &Panel, top: f64) -> String {
    let x = |share: f64| LEFT + share * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| top + (1.0 - share) * HEIGHT;
    let (left, right, bottom) = (x(0.0), x(1.0), y(0.0));
    let mut text =
        format!("<text class=\"text\" x=\"{left}\" y=\"{}\">{}</text>\n", top - 12.0, escape_html(panel.title));
    for mark in panel.y.ticks() {
        let at = y(panel.y.position(mark));
        let _ = writeln!(text, "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/>");
        let _ = writeln!(
            text,
            "<text class=\"faint\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            escape_html(&(panel.format)(mark))
        );
    }
    for mark in panel.x.ticks() {
        let at = x(panel.x.position(mark));
        let _ = writeln!(
            text,
            "<text class=\"faint\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            escape_html(&rate(mark))
        );
    }
    if let Some((from, to)) = panel.ideal {
        let _ = writeln!(text, "<path class=\"ideal\" d=\"M{left} {:.1}L{right} {:.1}\"/>", y(from), y(to));
    }
    // The line connects the last try of each rate.
    let next = panel.dots.iter().skip(1).map(Some).chain([None]);
    let lasts = panel.dots.iter().zip(next).filter(|(dot, next)| next.is_none_or(|next| next.x > dot.x));
    let path: Vec<String> = lasts.map(|(dot, _)| format!("{:.1} {:.1}", x(dot.x), y(dot.y))).collect();
    if path.len() > 1 {
        let _ = writeln!(text, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
    }
    for dot in &panel.dots {
        let (x, y) = (x(dot.x), y(dot.y));
        let _ = match dot.kind {
            DotKind::Good => writeln!(text, "<circle class=\"good\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
            DotKind::Bad => writeln!(text, "<path class=\"bad\" d=\"M{x:.1} {y:.1}m-4-4l8 8m0-8l-8 8\"/>"),
            DotKind::Unclear => writeln!(text, "<circle class=\"unclear\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        };
    }
    text
}
