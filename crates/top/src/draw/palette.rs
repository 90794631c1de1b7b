//! Styles; without colours, only by weight.

use ratatui::style::{Color, Modifier, Style};

/// Styles of all elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(crate) const fn new(is_coloured: bool) -> Self {
        Self { is_coloured }
    }

    const fn colour(self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) const fn plain(self) -> Style {
        Style::new()
    }

    pub(super) const fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) const fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) const fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Secondary figures: traffic, bars.
    pub(super) const fn figure(self) -> Style {
        self.colour(Color::Cyan)
    }

    pub(super) const fn dim(self) -> Style {
        self.colour(Color::DarkGray)
    }

    pub(super) const fn header(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) const fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
