//! What the keys that are typed do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Mode, Model, View, Wish};

/// How far a page is.
const PAGE: usize = 10;
/// A filter is a word or two.
const LONGEST_FILTER: usize = 100;

impl Model {
    /// Takes up a key that was typed; what it wishes done.
    pub(in crate::top) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Wish::Quit);
        }
        self.remark = None;
        let wish = match std::mem::replace(&mut self.mode, Mode::Commands) {
            Mode::Commands => self.command(key.code),
            Mode::Filter => {
                self.edit_filter(key.code);
                None
            }
            Mode::Confirm(ban) => match key.code {
                KeyCode::Char('y' | 'Y') => Some(Wish::Lift(ban)),
                _ => None,
            },
        };
        self.stay_within();
        wish
    }

    fn command(&mut self, key: KeyCode) -> Option<Wish> {
        match key {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.view = View::ALL[digit as usize - '1' as usize],
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.view = View::Help,
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step_back(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(PAGE),
            KeyCode::PageUp => self.step_back(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.step_back(usize::MAX),
            KeyCode::End | KeyCode::Char('G') => self.step(usize::MAX),
            KeyCode::Char('s') => match self.view {
                View::Keys => self.key_sort.advance(),
                View::Bans => self.ban_sort.advance(),
                _ => self.rule_sort.advance(),
            },
            KeyCode::Char('r') => match self.view {
                View::Keys => self.key_sort.reverse(),
                View::Bans => self.ban_sort.reverse(),
                _ => self.rule_sort.reverse(),
            },
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => {
                self.frozen = if self.is_paused() { None } else { Some(Box::new(self.seen.clone())) };
            }
            KeyCode::Char('x') | KeyCode::Delete if self.view == View::Bans => self.ask_to_lift(),
            _ => {}
        }
        None
    }

    fn edit_filter(&mut self, key: KeyCode) {
        self.mode = Mode::Filter;
        match key {
            KeyCode::Enter => self.mode = Mode::Commands,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Commands;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if !character.is_control() && self.filter.len() < LONGEST_FILTER => {
                self.filter.push(character);
            }
            _ => {}
        }
    }

    fn ask_to_lift(&mut self) {
        let chosen = self.bans().get(self.cursor()).map(|ban| (*ban).clone());
        match chosen {
            None => {}
            Some(ban) if self.may_write() => self.mode = Mode::Confirm(ban),
            Some(_) => self.remark = Some("this token may only read: bans are lifted with one that may write".into()),
        }
    }

    fn turn(&mut self, by: usize) {
        self.view = View::ALL[(self.view as usize + by) % View::ALL.len()];
    }

    fn step(&mut self, by: usize) {
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = cursor.saturating_add(by);
    }

    fn step_back(&mut self, by: usize) {
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = cursor.saturating_sub(by);
    }
}
