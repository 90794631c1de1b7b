//! Key bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Action, InputMode, Model, View};

/// Rows per page.
const PAGE_ROWS: usize = 10;
/// Maximum length of a filter.
const MAX_FILTER_CHARS: usize = 100;

impl Model {
    /// Handles a key; returns the action to run, if any.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
        }
        self.message = None;
        let action = match std::mem::replace(&mut self.mode, InputMode::Commands) {
            InputMode::Commands => self.command(key.code),
            InputMode::Filter => {
                self.edit_filter(key.code);
                None
            }
            InputMode::Confirm(ban) => match key.code {
                KeyCode::Char('y' | 'Y') => Some(Action::RemoveBan(ban)),
                _ => None,
            },
        };
        self.clamp_cursor();
        action
    }

    fn command(&mut self, key: KeyCode) -> Option<Action> {
        match key {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Tab | KeyCode::Right => self.switch_view(1),
            KeyCode::BackTab | KeyCode::Left => self.switch_view(View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.view = View::ALL[digit as usize - '1' as usize],
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.view = View::Help,
            KeyCode::Down | KeyCode::Char('j') => self.move_down(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_up(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.move_down(PAGE_ROWS),
            KeyCode::PageUp => self.move_up(PAGE_ROWS),
            KeyCode::Home | KeyCode::Char('g') => self.move_up(usize::MAX),
            KeyCode::End | KeyCode::Char('G') => self.move_down(usize::MAX),
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
            KeyCode::Char('/') => self.mode = InputMode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => {
                self.frozen = if self.is_paused() { None } else { Some(Box::new(self.current.clone())) };
            }
            KeyCode::Char('x') | KeyCode::Delete if self.view == View::Bans => self.confirm_removal(),
            _ => {}
        }
        None
    }

    fn edit_filter(&mut self, key: KeyCode) {
        self.mode = InputMode::Filter;
        match key {
            KeyCode::Enter => self.mode = InputMode::Commands,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = InputMode::Commands;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if !character.is_control() && self.filter.len() < MAX_FILTER_CHARS => {
                self.filter.push(character);
            }
            _ => {}
        }
    }

    fn confirm_removal(&mut self) {
        let selected = self.bans().get(self.cursor()).map(|ban| (*ban).clone());
        match selected {
            None => {}
            Some(ban) if self.may_write() => self.mode = InputMode::Confirm(ban),
            Some(_) => {
                self.message = Some("the token has read-only access: removing a ban requires write access".into());
            }
        }
    }

    fn switch_view(&mut self, by: usize) {
        self.view = View::ALL[(self.view as usize + by) % View::ALL.len()];
    }

    fn move_down(&mut self, by: usize) {
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = cursor.saturating_add(by);
    }

    fn move_up(&mut self, by: usize) {
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = cursor.saturating_sub(by);
    }
}
