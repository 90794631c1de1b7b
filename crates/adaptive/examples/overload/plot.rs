//! Line plots as SVG.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 140.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// A named line through points in plot units.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) colour: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Axes of a plot.
pub(crate) struct Plot {
    /// Label of the x axis.
    pub(crate) x: &'static str,
    /// Label of the y axis.
    pub(crate) y: &'static str,
    /// Highest y value; larger values are drawn at the edge.
    pub(crate) max: f64,
    /// Lowest y value of a logarithmic axis; `None` for a linear axis.
    pub(crate) log: Option<f64>,
}

impl Plot {
    fn y_position(&self, value: f64) -> f64 {
        let share = match self.log {
            Some(min) => (value.max(min) / min).ln() / (self.max / min).ln(),
            None => value / self.max,
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.log {
            Some(min) => {
                let decades = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
                decades.into_iter().filter(|mark| (min..=self.max).contains(mark)).collect()
            }
            None => {
                let step = nice_step(self.max / 5.0);
                (0..=(self.max / step + 1e-9) as u32).map(|index| f64::from(index) * step).collect()
            }
        }
    }

    /// Renders the curves as SVG.
    pub(crate) fn draw(&self, curves: &[Curve]) -> String {
        let max_x = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(1e-9, f64::max);
        let across = |value: f64| LEFT + value / max_x * (WIDTH - LEFT - RIGHT);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in self.ticks() {
            let y = self.y_position(mark);
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                text(mark)
            );
        }
        let step = nice_step(max_x / 6.0);
        for index in 0..=(max_x / step + 1e-9) as u32 {
            let value = f64::from(index) * step;
            let x = across(value);
            let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#eee\"/>");
            let y = bottom + 18.0;
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", text(value));
        }
        let _ = writeln!(svg, "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" stroke=\"#444\" fill=\"none\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 10.0,
            self.x
        );
        let middle = f64::midpoint(TOP, bottom);
        let _ = writeln!(
            svg,
            "<text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle})\">{}</text>",
            self.y
        );
        // The first curve is Sluicegate's: drawn last, and thicker.
        for (index, curve) in curves.iter().enumerate().rev() {
            let points: Vec<String> =
                curve.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), self.y_position(*y))).collect();
            let (colour, width) = (curve.colour, if index == 0 { 3.0 } else { 1.5 });
            let points = points.join(" ");
            let _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
            );
            let y = TOP + 12.0 + 20.0 * index as f64;
            let (from, to) = (right + 12.0, right + 34.0);
            let _ = writeln!(svg, "<path d=\"M{from} {y}H{to}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", to + 6.0, y + 4.0, curve.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Rounds a tick distance up to a convenient number.
fn nice_step(step: f64) -> f64 {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
    steps.into_iter().find(|it| *it >= step * 0.999).unwrap_or(1_000.0)
}

fn text(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}").trim_end_matches('0').to_owned() }
}
